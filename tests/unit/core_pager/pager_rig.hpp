// SPDX-License-Identifier: Apache-2.0
// PagerRig: a PagerCore with one page table or more, driven event by event. Every step verifies the
// invariants.
//
// Commands are kept until a test looks at them. Frames are numbered from 100 in the order of their creation;
// the rig creates, fills and maps by itself only when told so.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "dataplane/core/pager_core.hpp"
#include "dataplane/core/simple_eviction.hpp"

namespace penstock::test {

inline constexpr SessionId alice{1};
inline constexpr SessionId bob{2};
inline constexpr SessionId carol{3};
inline constexpr TableId weights{10};
inline constexpr TableId others{11};
inline constexpr TableId scratch{12};
inline constexpr TableId copies{13};

class PagerRig {
 public:
  explicit PagerRig(std::uint32_t budget_frames, std::size_t buffer = command_buffer_min)
      : core_({.budget_frames = budget_frames}, std::make_unique<SimpleEviction>()), buffer_(buffer) {}

  void step(const Event& event) {
    bool more = core_.step(event, now_, buffer_);
    take();
    while (more) {
      more = core_.step(Continue{}, now_, buffer_);
      take();
    }
    core_.verify();
  }

  // ---- the world ----
  void open(SessionId session, std::uint32_t private_frames_max = 0) {
    step(SessionOpened{.session = session, .private_frames_max = private_frames_max});
  }
  void open_table(TableId table, std::uint32_t pages, TableKind kind = TableKind::file) {
    step(TableOpened{.table = table, .kind = kind, .pages = pages, .owner = alice, .origin = weights});
  }
  void attach(SessionId session, TableId table, RevokeMode mode = RevokeMode::agent) {
    step(TableAttached{.session = session, .table = table, .mode = mode});
  }
  // `sessions` and a table of `pages` pages, attached by all.
  void start(std::initializer_list<SessionId> sessions, std::uint32_t pages) {
    open_table(weights, pages);
    for (const SessionId session : sessions) {
      open(session);
      attach(session, weights);
    }
  }
  Ticket fault(SessionId session, std::uint32_t first, std::uint32_t count = 1, TableId table = weights) {
    const Ticket ticket{++tickets_};
    step(Fault{.ticket = ticket, .session = session, .table = table, .first = first, .count = count});
    return ticket;
  }
  Ticket prefetch(std::uint32_t first, std::uint32_t count, TableId table = weights) {
    const Ticket ticket{++tickets_};
    step(Prefetch{.ticket = ticket, .table = table, .first = first, .count = count});
    return ticket;
  }
  Ticket make_private(SessionId session, std::uint32_t first, std::uint32_t count = 1) {
    const Ticket ticket{++tickets_};
    step(MakePrivate{.ticket = ticket, .session = session, .table = copies, .first = first, .count = count});
    return ticket;
  }
  Ticket set_budget(std::uint32_t frames) {
    const Ticket ticket{++tickets_};
    step(SetBudget{.ticket = ticket, .frames = frames});
    return ticket;
  }
  Ticket evict(std::optional<TableId> table, std::uint32_t frames = 0xffffffff) {
    const Ticket ticket{++tickets_};
    step(EvictRequest{.ticket = ticket,
                      .any_table = !table.has_value(),
                      .table = table.value_or(TableId{}),
                      .frames = frames});
    return ticket;
  }
  void pass(Nanoseconds time) {
    now_ += time;
    const std::optional<Nanoseconds> due = core_.next_deadline();
    if (due && *due <= now_) step(Tick{});
  }

  // ---- the shell: answers to the commands that are kept ----
  void create() {
    for (const CreateFrame& command : take_all<CreateFrame>()) {
      step(Created{.page = command.page, .frame = FrameId{next_frame_++}});
    }
  }
  void fill() {
    for (const Load& command : take_all<Load>()) {
      step(Loaded{.page = command.page, .generation = command.generation, .ok = true});
    }
    for (const CopyFrame& command : take_all<CopyFrame>()) {
      step(FenceReached{.page = command.page, .generation = command.generation});
    }
  }
  // Maps every batch that has come.
  void map() {
    for (const Grant& command : take_all<Grant>()) {
      if (command.last) step(Granted{.session = command.session, .batch = command.batch});
    }
  }
  // Creates, fills and maps until nothing is asked for any more.
  void settle() {
    while (has<CreateFrame>() || has<Load>() || has<CopyFrame>() || has<Grant>()) {
      create();
      fill();
      map();
    }
  }
  // The pages [first, first + count) mapped by the session; nothing is kept.
  void give(SessionId session, std::uint32_t first, std::uint32_t count = 1, TableId table = weights) {
    fault(session, first, count, table);
    settle();
    clear();
  }
  void acked(SessionId session, std::uint32_t page, TableId table = weights) {
    step(Acked{.session = session, .page = {table, page}, .generation = generation({table, page})});
  }
  void busy(SessionId session, std::uint32_t page, bool later = false) {
    step(Busy{.session = session,
              .page = {weights, page},
              .generation = generation({weights, page}),
              .later = later});
  }
  void idle(SessionId session, std::uint32_t page) {
    step(Idle{.session = session, .page = {weights, page}});
  }

  // ---- what the core has said ----
  template <class Kind>
  std::vector<Kind> all() const {
    std::vector<Kind> found;
    for (const Command& command : kept_) {
      if (const Kind* kind = std::get_if<Kind>(&command)) found.push_back(*kind);
    }
    return found;
  }
  template <class Kind>
  std::vector<Kind> take_all() {
    std::vector<Kind> found = all<Kind>();
    std::erase_if(kept_, [](const Command& command) { return std::holds_alternative<Kind>(command); });
    return found;
  }
  template <class Kind>
  bool has() const {
    return !all<Kind>().empty();
  }
  template <class Kind>
  std::vector<std::uint32_t> pages() const {
    std::vector<std::uint32_t> found;
    for (const Kind& command : all<Kind>()) found.push_back(command.page.index);
    return found;
  }
  std::vector<SessionId> revoked(std::uint32_t page) const {
    std::vector<SessionId> found;
    for (const Revoke& revoke : all<Revoke>()) {
      if (revoke.page.index == page) found.push_back(revoke.session);
    }
    return found;
  }
  // The answer to the ticket; fails the test when there are two.
  std::optional<Complete> answer(Ticket ticket) const {
    std::optional<Complete> found;
    for (const Complete& complete : all<Complete>()) {
      if (complete.ticket != ticket) continue;
      EXPECT_FALSE(found.has_value()) << "answered twice";
      found = complete;
    }
    return found;
  }
  bool done(Ticket ticket) const { return has_result(ticket, TicketResult::done); }
  bool offloaded(Ticket ticket) const { return has_result(ticket, TicketResult::offloaded); }
  Generation generation(PageKey page) const {
    const auto found = generations_.find(page);
    return found == generations_.end() ? Generation{} : found->second;
  }
  const std::vector<Command>& commands() const { return kept_; }
  void clear() { kept_.clear(); }
  PagerCore& core() { return core_; }
  Residency residency(std::uint32_t page, TableId table = weights) const {
    return core_.residency({table, page});
  }
  PagerCounts counts() const { return core_.counts(); }

 private:
  bool has_result(Ticket ticket, TicketResult result) const {
    const std::optional<Complete> complete = answer(ticket);
    return complete && complete->result == result;
  }
  void take() {
    EXPECT_LE(buffer_.commands().size(), command_buffer_min);
    for (const Command& command : buffer_.commands()) {
      kept_.push_back(command);
      if (const auto* changed = std::get_if<PageChanged>(&command))
        generations_[changed->page] = changed->generation;
    }
    buffer_.clear();
  }

  PagerCore core_;
  CommandBuffer buffer_;
  std::vector<Command> kept_;
  std::unordered_map<PageKey, Generation> generations_;
  Nanoseconds now_{std::chrono::seconds(1000)};
  std::uint64_t tickets_ = 0;
  std::uint32_t next_frame_ = 100;
};

using Pages = std::vector<std::uint32_t>;
using Sessions = std::vector<SessionId>;

}  // namespace penstock::test
