// SPDX-License-Identifier: Apache-2.0
// PagerCore::State: what PagerCore hides. An event is first recorded, then pump() does whatever has become
// possible. DESIGN.md numbers the invariants; verify() checks them.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "dataplane/core/page_tables.hpp"
#include "dataplane/core/pager_core.hpp"
#include "dataplane/core/pager_output.hpp"
#include "dataplane/core/session_record.hpp"
#include "dataplane/core/ticket_record.hpp"

namespace penstock {

class PagerCore::State {
 public:
  State(const PagerCoreOptions& options, std::unique_ptr<EvictionPolicy> policy);

  bool step(const Event& event, Nanoseconds now, CommandBuffer& commands);
  std::optional<Nanoseconds> next_deadline();
  PagerCounts counts() const;
  const PagedTable* find_table(TableId table) const { return tables_.find(table); }
  void verify();

 private:
  enum class Taken : std::uint8_t { yes, stalled, refused };
  struct Refusal {
    TicketResult result = TicketResult::offloaded;
    FailureKind reason = FailureKind::offloaded;
  };

  // pager_sessions.cpp
  void on(const SessionOpened& event);
  void on(const SessionClosed& event);
  void on(const TableAttached& event);
  void on(const TableDetached& event);
  void on(const SetCutoff& event);
  PagingSession* find_session(SessionId session) const;
  TableMapping* find_mapping(SessionId session, PageKey page) const;
  void detach(PagingSession& session, TableMapping& mapping);
  void wake(PagingSession& session);
  // Called for each event that comes from the session's process.
  void hear(SessionId session);
  void hear(PagingSession& session);

  // pager_tables.cpp
  void on(const TableOpened& event);
  void on(const TableClosed& event);
  void on(const Prioritize& event);
  void on(const SetSourcePlace& event);
  void close(PagedTable& table, EvictReason reason);
  bool work_on_closing_tables();
  bool close_page(PagedTable& table, std::uint32_t index);

  // pager_frames.cpp: a frame's way from CreateFrame to DestroyFrame.
  void on(const Created& event);
  void on(const NotCreated& event);
  void on(const Loaded& event);
  void on(const FenceReached& event);
  void on(const WriterLost& event);
  bool can_create() const;
  std::uint32_t frame_limit() const;
  void create_frame(PagedTable& table, std::uint32_t index, bool bulk);
  void fill_frame(PagedTable& table, std::uint32_t index, FrameId frame);
  void page_filled(PagedTable& table, std::uint32_t index);
  void page_not_filled(PagedTable& table, std::uint32_t index, FailureKind reason);
  void mark_doomed(const TicketRecord& ticket);
  void release_source(PagedTable& table, std::uint32_t index);
  void destroy_frame(PagedTable& table, std::uint32_t index);
  void say_changed(const PagedTable& table, std::uint32_t index);
  void say_sharing(const PagedTable& table, std::uint32_t index);
  void hold(PagedTable& table, std::uint32_t index);
  void unhold(PagedTable& table, std::uint32_t index);

  // pager_evictions.cpp
  void on(const Acked& event);
  void on(const Busy& event);
  void on(const Idle& event);
  void on(const Release& event);
  void start_eviction(PageKey victim, EvictReason reason);
  void give_up_eviction(PagedTable& table, std::uint32_t index);
  void count_refusal(EvictReason reason);
  void end_mapping(TableMapping& mapping, std::uint32_t index);
  void finish_if_unmapped(PagedTable& table, std::uint32_t index);
  void evict(PagedTable& table, std::uint32_t index, EvictReason reason);

  // pager_deadlines.cpp
  void on(const Tick& event);
  void on(const Continue&) {}
  void become_stuck(PagingSession& session);
  void expire_batch(PagingSession& session);

  // pager_tickets.cpp
  void on(const Fault& event);
  void on(const Prefetch& event);
  void on(const MakePrivate& event);
  void on(const Cancel& event);
  TicketRecord* admit(TicketKind kind, Ticket id, SessionId session, TableId table, std::uint32_t first,
                      std::uint32_t count);
  void enqueue(TicketRecord& ticket);
  void settle(TicketRecord& ticket);
  TicketQueue& queue_of(const TicketRecord& ticket);
  void say_complete(const TicketRecord& ticket, TicketResult result, FailureKind reason,
                    std::uint32_t kept_pinned = 0);
  // Answers, drops what it holds, and forgets it.
  void finish(TicketRecord& ticket, TicketResult result, FailureKind reason = FailureKind::internal,
              std::uint32_t kept_pinned = 0);
  void forget(TicketRecord& ticket);
  void hold_range(TicketRecord& ticket);
  void drop_source(TicketRecord& ticket);
  void drop_holds(TicketRecord& ticket);
  void start_again(TicketRecord& ticket);
  template <class Visit>
  void for_each_waiting(PagedTable& table, std::uint32_t index, Visit&& visit);

  // pager_taking.cpp
  bool take_for_faults();
  bool take_for_prefetches();
  Taken take_fault(TicketRecord& ticket);
  Taken take_private(TicketRecord& ticket);
  Taken take_private_page(TicketRecord& ticket, PagedTable& origin);
  Taken take_page(TicketRecord& ticket, PagedTable& table, std::uint32_t index);
  Taken take_absent(TicketRecord& ticket, PagedTable& table, std::uint32_t index, std::uint32_t wanted);
  bool has_quota(const TicketRecord& ticket) const;
  std::uint32_t frames_wanted(const TicketRecord& ticket) const;
  void make_room(std::uint32_t wanted, EvictReason reason);
  bool help_is_coming(const TicketRecord* asking) const;
  void take_prefetch(TicketRecord& ticket);
  bool room_for_prefetch(TicketRecord& ticket);
  void pass_prefetched(TicketRecord& ticket);

  // pager_granting.cpp
  void on(const Granted& event);
  bool grant_to_woken();
  bool advance(TicketRecord& ticket);
  void send_batch(TicketRecord& ticket, const std::uint32_t* pages, std::uint32_t count, bool completes);

  // pager_budget.cpp
  void on(const SetBudget& event);
  void on(const EvictRequest& event);
  void on(const EvictPage& event);
  bool shrink_to_budget();
  bool serve_evict_request();
  bool finish_budget();
  std::uint32_t frames_in_scope(const TicketRecord& request) const;
  void credit_destroyed(const PagedTable& table, EvictReason reason);

  // pager_core.cpp
  void pump();
  std::uint32_t used() const { return tables_.total(PageClass::used); }
  std::uint32_t leaving() const { return tables_.total(PageClass::leaving); }

  // pager_verify.cpp
  void verify_table(const PagedTable& table, std::array<std::uint32_t, page_classes>& totals);
  void verify_holds();
  void verify_sessions();
  void verify_tickets();

  const PagerCoreOptions options_;
  std::uint32_t budget_;
  // The device had no memory for one more, though the budget had: not asked again for more than this before
  // then.
  std::uint32_t exhausted_at_ = ~0u;
  Nanoseconds exhausted_until_{};
  FailureKind exhausted_by_ = FailureKind::exhausted;  // What the device said then.
  Nanoseconds now_{};
  CommandStream out_;
  PageTables tables_;
  std::map<SessionId, std::unique_ptr<PagingSession>> sessions_;
  TicketPool tickets_;
  TicketQueue faults_;      // Taking: faults and make-privates, oldest first.
  TicketQueue prefetches_;  // Taking.
  TicketQueue settled_;     // In order of arrival.
  TicketQueue evicts_;
  TicketRecord* budget_ticket_ = nullptr;
  std::uint32_t holding_tickets_ = 0;
  std::vector<PagingSession*> woken_;
  std::vector<PagedTable*> closing_;
  bool more_ = false;
  PagerCounts counts_;  // The cumulative ones.
};

// Visits the tickets that wait for the page to be filled. The visit may finish the ticket or start it again.
template <class Visit>
void PagerCore::State::for_each_waiting(PagedTable& table, std::uint32_t index, Visit&& visit) {
  for (TicketRecord* ticket = table.tickets.first(); ticket != nullptr;) {
    TicketRecord* next = TableTickets::after(*ticket);
    if (ticket->done_next <= index && index < ticket->take_next) visit(*ticket);
    ticket = next;
  }
  // Only the first of its queue can be waiting for its source.
  TicketRecord* head = faults_.first();
  if (head != nullptr && head->holds_source && head->take_next == index && head->table->origin == table.id) {
    visit(*head);
  }
}

}  // namespace penstock
