// SPDX-License-Identifier: Apache-2.0
// The pager core's whole vocabulary: events go in, commands come out. Plain values only.
//
// The core pages tables on ONE device. It knows sessions, tables and frames as numbers, never a descriptor or a file.
// Private copies of shared pages live in an *overlay* table: an anonymous table whose origin is the shared one.
#pragma once

#include <chrono>
#include <cstdint>
#include <variant>

#include "dataplane/base/failure.hpp"
#include "dataplane/base/ids.hpp"
#include "dataplane/core/urgency.hpp"

namespace penstock {

using Nanoseconds =
    std::chrono::nanoseconds;  // Since an arbitrary epoch; passed in, never read, inside the core.

enum class TableKind : std::uint8_t { file, assembled, anonymous, overlay };
enum class RevokeMode : std::uint8_t { agent, cooperative };  // D3: who answers a revoke, and in what time.
// From where most of a table's bytes could be read again, the cheapest first. Of the last two only its client can bring
// them back, by work of its own: from its memory, or from where that was swapped out to.
enum class SourcePlace : std::uint8_t { locked_host, page_cache, disk, client_memory, client_swap };
enum class Residency : std::uint8_t { absent, loading, resident, evicting };

// ---- events: the service opens and closes -------------------------------------------------------------------
struct SessionOpened {
  SessionId session{};
  std::uint32_t private_frames_max = 0;  // Quota of anonymous and overlay frames; 0 = none.
};
// The client is gone: its waiters are dropped, its revokes count as acknowledged, its private frames are destroyed.
struct SessionClosed {
  SessionId session{};
};
struct TableOpened {
  TableId table{};
  TableKind kind = TableKind::file;
  std::uint32_t pages = 0;
  SessionId owner{};  // Anonymous and overlay tables: the only session that may use it.
  TableId origin{};   // Overlay: the shared table that it overrides.
};
struct TableAttached {
  SessionId session{};
  TableId table{};
  RevokeMode mode = RevokeMode::agent;
};
// The client says that it has unmapped all of the table.
struct TableDetached {
  SessionId session{};
  TableId table{};
};
// REQUIRES: nobody is attached. Resident pages are destroyed, loads cancelled.
struct TableClosed {
  TableId table{};
};

// ---- events: requests ----------------------------------------------------------------------------------------
// Wants pages [first, first + count) granted to the session. Completed once: done when the last is granted.
// The pages stay unevictable until the completing grant batch has been sent.
struct Fault {
  Ticket ticket{};
  SessionId session{};
  TableId table{};
  std::uint32_t first = 0, count = 0;
};
// Wants pages resident; nothing is granted. Stops without evicting pages of higher value: done with fewer pages.
struct Prefetch {
  Ticket ticket{};
  TableId table{};
  std::uint32_t first = 0, count = 0;
};
// Copies the origin's pages into the session's overlay and grants them writable. TableId is the overlay's.
struct MakePrivate {
  Ticket ticket{};
  SessionId session{};
  TableId table{};
  std::uint32_t first = 0, count = 0;
};
// Evict up to `frames` unpinned frames of one table (all of it: 0xffffffff) or, without a table, of the device.
struct EvictRequest {
  Ticket ticket{};
  bool any_table = false;
  TableId table{};
  std::uint32_t frames = 0;
};
// Evict this page, if nobody uses it now and it is still of that generation. Not answered.
struct EvictPage {
  PageKey page{};
  Generation generation{};
};
// The client has unmapped the page by itself (free, truncate). An anonymous page is destroyed; a shared one only loses
// this mapper, and is destroyed too when `drop_if_last` and it was the last.
struct Release {
  SessionId session{};
  PageKey page{};
  Generation generation{};
  bool drop_if_last = false;
};
struct Prioritize {
  TableId table{};
};  // Most valuable table from now on.
// What bringing the table's pages back would cost: `disk` until said. Anonymous pages come from nowhere: theirs stays.
struct SetSourcePlace {
  TableId table{};
  SourcePlace place = SourcePlace::disk;
};
struct SetCutoff {
  SessionId session{};
  TableId table{};
  std::uint32_t pages = 0;
};  // Faults at or above: offloaded.
struct SetBudget {
  Ticket ticket{};
  std::uint32_t frames = 0;
};  // Done when used <= frames.
struct Cancel {
  Ticket ticket{};
  FailureKind reason = FailureKind::cancelled;
};  // Deadline passed or the caller left.

// ---- events: answers from below --------------------------------------------------------------------------------
struct Created {
  PageKey page{};
  FrameId frame{};
};
struct NotCreated {
  PageKey page{};
  FailureKind reason = FailureKind::exhausted;
};  // exhausted, headroom, fd_limit
// The answer to Load, also after CancelLoad: no read is in flight and no fence pending on the frame any more.
struct Loaded {
  PageKey page{};
  Generation generation{};
  bool ok = false;
  FailureKind reason = FailureKind::io_error;
};
// The answer to CopyFrame.
struct FenceReached {
  PageKey page{};
  Generation generation{};
  bool ok = true;
};
struct WriterLost {
};  // Every frame that was being filled is undefined: destroyed, its pages absent; waiters retry once.

// ---- events: from clients ----------------------------------------------------------------------------------------
struct Granted {
  SessionId session{};
  std::uint32_t batch = 0;
};  // The client has mapped (or closed) the whole batch.
struct Acked {
  SessionId session{};
  PageKey page{};
  Generation generation{};
};  // Unmapped.
// Pinned (or, in cooperative mode, `later`: not now). The page stays; the core takes its next victim.
struct Busy {
  SessionId session{};
  PageKey page{};
  Generation generation{};
  bool later = false;
};
struct Idle {
  SessionId session{};
  PageKey page{};
};  // A page that answered busy has lost its last pin.

struct Tick {};      // Time has passed: see PagerCore::next_deadline.
struct Continue {};  // There was more to do than the command buffer could hold.

using Event = std::variant<SessionOpened, SessionClosed, TableOpened, TableAttached, TableDetached,
                           TableClosed, Fault, Prefetch, MakePrivate, EvictRequest, EvictPage, Release,
                           Prioritize, SetSourcePlace, SetCutoff, SetBudget, Cancel, Created, NotCreated,
                           Loaded, FenceReached, WriterLost, Granted, Acked, Busy, Idle, Tick, Continue>;

// ---- commands ----------------------------------------------------------------------------------------------------
struct CreateFrame {
  PageKey page{};
};  // Answered by Created or NotCreated.
struct DestroyFrame {
  FrameId frame{};
};  // Nobody maps it, nothing is in flight on it.
struct Load {
  PageKey page{};
  Generation generation{};
  FrameId frame{};
  Urgency urgency = Urgency::fault;
};
struct CancelLoad {
  PageKey page{};
  Generation generation{};
};
struct CopyFrame {
  PageKey page{};
  Generation generation{};
  FrameId to{};
  FrameId from{};
};
// All Grant commands of one batch come in a row; `last` ends it and tells which ticket it completes, if any.
struct Grant {
  SessionId session{};
  std::uint32_t batch =
      0;  // Increases per session; at most grant_batch_pages grants; one unacknowledged at a time.
  PageKey page{};
  Generation generation{};
  FrameId frame{};
  bool writable = false;
  bool last = false;
};
struct Revoke {
  SessionId session{};
  PageKey page{};
  Generation generation{};
};
enum class TicketResult : std::uint8_t { done, offloaded, failed, cancelled };
struct Complete {
  Ticket ticket{};
  TicketResult result = TicketResult::done;
  FailureKind reason =
      FailureKind::internal;  // When not done, or a prefetch that ended before its last page.
  std::uint32_t frames = 0;   // Of the range, found or made resident (prefetch); destroyed (evict, budget).
  std::uint32_t kept_pinned = 0;  // Evict: frames that stayed because someone uses them.
};
struct PageChanged {
  PageKey page{};
  Residency residency = Residency::absent;
  Generation generation{};
};
enum class EvictReason : std::uint8_t {
  fault,
  prefetch,
  budget,
  request,
  session_closed,
  table_closed,
  released
};
// For the log and the counters. Not an instruction.
// Whether two sessions or more have the page granted.
struct SharingChanged {
  PageKey page{};
  bool several = false;
};
struct Evicted {
  PageKey page{};
  EvictReason reason = EvictReason::fault;
  bool refaultable = true;
};
struct SessionStuck {
  SessionId session{};
  bool stuck = true;
  std::uint32_t pages = 0;
};

using Command = std::variant<CreateFrame, DestroyFrame, Load, CancelLoad, CopyFrame, Grant, Revoke, Complete,
                             PageChanged, SharingChanged, Evicted, SessionStuck>;

inline constexpr std::uint32_t grant_batch_pages =
    128;  // Descriptors in one SCM_RIGHTS message: kernel limit is 253.

}  // namespace penstock
