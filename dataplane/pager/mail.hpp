// SPDX-License-Identifier: Apache-2.0
// What the service thread and a device's dataplane thread say to each other, through bounded mailboxes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "dataplane/base/failure.hpp"
#include "dataplane/base/ids.hpp"
#include "dataplane/core/page_layout.hpp"
#include "dataplane/core/pager_events.hpp"
#include "dataplane/io/checkpoint_file.hpp"
#include "dataplane/pager/peer_port.hpp"
#include "dataplane/pager/shared_words.hpp"
#include "dataplane/pager/stats.hpp"

namespace penstock {

enum class RequestId : std::uint64_t {};  // The service thread numbers its requests; 0 = no answer wanted.

// Everything needed to fill pages of a file or assembled table. Immutable, shared.
struct TableSource {
  PageLayout layout;
  std::vector<std::shared_ptr<CheckpointFile>> files;  // LayoutPiece::file indexes it.
};

namespace mail {
struct OpenSession {
  SessionId session{};
  std::unique_ptr<PeerPort> port;
  std::uint64_t private_bytes_max = 0;  // Quota of private frames; 0 = none. Less than a frame counts as one.
};
struct CloseSession {
  SessionId session{};
};
struct OpenTable {
  TableId table{};
  TableKind kind = TableKind::file;
  std::uint32_t pages = 0;
  std::shared_ptr<const TableSource> source;  // Null for anonymous and overlay.
  SessionId owner{};
  TableId origin{};
  std::shared_ptr<PageWords> words;  // Written by the dataplane thread alone.
};
// Also for the owner of an anonymous or overlay table: a client may name only what it is attached to. An overlay has the
// pin words of its origin.
struct AttachTable {
  SessionId session{};
  TableId table{};
  TableNumber number{};  // On the session's socket. New at each opening, so that what is late is known.
  RevokeMode mode = RevokeMode::agent;
  std::shared_ptr<const PinWords> pins;  // The session's region: read as a hint only.
};
struct DetachTable {
  SessionId session{};
  TableId table{};
};
// Nobody may be attached: else `failed`, `busy`. Done when nothing reads for the table any more.
struct CloseTable {
  RequestId request{};
  TableId table{};
};
struct LoadTable {
  RequestId request{};
  TableId table{};
  std::uint32_t first = 0, count = 0;
};
struct EvictTable {
  RequestId request{};
  bool any_table = false;
  TableId table{};
  std::uint64_t bytes = ~0ull;
};
// Resident pages that the service fills are summed up soon. Answered when that is done: `bytes` were summed up,
// `corrupt_pages` of them were not what they had been.
struct ScrubTable {
  RequestId request{};
  bool any_table = false;
  TableId table{};
};
// What is cheap to bring back goes before what isn't.
struct MoveSource {
  TableId table{};
  SourcePlace place = SourcePlace::disk;
};
struct ChangeBudget {
  RequestId request{};
  std::uint64_t bytes = 0;
};
struct Stop {};
}  // namespace mail

using PagerMail = std::variant<mail::OpenSession, mail::CloseSession, mail::OpenTable, mail::AttachTable,
                               mail::DetachTable, mail::CloseTable, mail::LoadTable, mail::EvictTable,
                               mail::ScrubTable, mail::MoveSource, mail::ChangeBudget, mail::Stop>;

// ---- to the service thread ----
struct RequestDone {
  RequestId request{};
  TicketResult result = TicketResult::done;
  FailureKind reason = FailureKind::internal;  // LoadTable: also of pages that found no room, when done.
  std::uint64_t bytes = 0;                     // Made resident, or evicted.
  std::uint64_t kept_pinned_bytes = 0;
  std::uint64_t direct_bytes = 0;  // LoadTable: read by this request
  std::uint64_t cached_bytes = 0;
  std::uint64_t corrupt_pages = 0;  // ScrubTable
  std::string detail{};             // Of an io_error or a changed file: one line for a person.
};
struct PeerGone {
  SessionId session{};
  FailureKind reason = FailureKind::disconnected;
};                      // Hang-up or violation.
struct PagerDecision {  // For the decision log behind `penstock explain`.
  enum class Kind : std::uint8_t {
    load,
    evict,
    offload,
    refuse,
    stuck,
    unstuck,
    io_error,
    corrupt
  } kind = Kind::load;
  TableId table{};
  std::uint32_t page = 0;
  SessionId session{};
  std::uint64_t bytes = 0;
  FailureKind reason = FailureKind::internal;
  EvictReason evict_reason = EvictReason::fault;
  std::uint64_t used_bytes = 0, budget_bytes = 0;
  std::string detail{};  // Of io_error: "unexpected end at 4096 of 12388"; of corrupt: both checksums.
};
struct PagerStopped {
  bool copies_left = false;  // The device was still copying; the process can end all the same.
  std::string stuck_on;
};  // Empty when every read ended in time.
// What its writer lets the device do has changed.
struct ConditionChanged {
  DeviceCondition condition = DeviceCondition::ready;
  bool contents_lost = false;  // Of what is resident nothing can be used any more, nor mapped by anybody.
};
using PagerNews = std::variant<RequestDone, PeerGone, PagerDecision, PagerStopped, ConditionChanged>;

}  // namespace penstock
