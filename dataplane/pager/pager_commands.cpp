// SPDX-License-Identifier: Apache-2.0
// What the core wants. Nothing here enters the core again: what follows at once goes through events_.
#include <algorithm>
#include <utility>

#include "dataplane/base/check.hpp"
#include "dataplane/pager/pager.hpp"

namespace penstock {

void Pager::run_commands() {
  for (const Command& command : commands_.commands()) {
    std::visit([this](const auto& content) { run(content); }, command);
  }
  commands_.clear();
}

void Pager::run(const CreateFrame& command) {
  owner_.create(std::uint64_t{raw(command.page.table)} << 32 | command.page.index);
  device_touched_ = true;
}

void Pager::run(const DestroyFrame& command) {
  scrubber_.destroyed(command.frame);
  writer_.detach(command.frame);
  owner_.destroy(command.frame);
  device_touched_ = true;
}

void Pager::run(const Load& command) {
  if (stopping()) {
    later(Loaded{
        .page = command.page, .generation = command.generation, .ok = false, .reason = FailureKind::closing});
    return;
  }
  if (scrubber_.holds(command.page)) return;  // All that is left to do is its sum.
  scrubber_.loading(command.page, command.generation, command.frame);
  loads_->load(command);
  loads_touched_ = true;
  news_.log(decision(PagerDecision::Kind::load, command.page));
}

void Pager::run(const CancelLoad& command) {
  release_filled(command.page);
  loads_->cancel(command);
  loads_touched_ = true;
}

void Pager::run(const CopyFrame& command) {
  waiting_copies_.push_back(command);
  start_copies();
}

void Pager::run(const Grant& command) {
  PeerSession* session = find_session(command.session);
  if (session == nullptr) return;
  if (collecting_ != nullptr && collecting_ != session) send_collected(std::nullopt);
  collecting_ = session;
  // A detached table gets no grants: the core ends its tickets first.
  Attachment* attachment = session->find(command.page.table);
  CHECK(attachment != nullptr);
  attachment->granted[command.page.index] = command.generation;
  session->outbox().add(command, attachment->number);
}

void Pager::run(const Revoke& command) {
  PeerSession* session = find_session(command.session);
  if (session == nullptr) return;
  if (collecting_ == session) send_collected(std::nullopt);
  const Attachment* attachment = session->find(command.page.table);
  CHECK(attachment != nullptr);
  session->outbox().send(command, attachment->number);
  after_sending(*session);
}

void Pager::run(const Complete& command) {
  const OpenRequest* open = requests_.find(command.ticket);
  if (open == nullptr) return;
  const OpenRequest request = *open;
  requests_.close(command.ticket);
  if (command.result == TicketResult::offloaded) stats_.offloaded.fetch_add(1, std::memory_order_relaxed);
  if (command.result != TicketResult::done) log_outcome(request, command);
  if (request.from_peer()) {
    complete_for_peer(request, command);
  } else {
    complete_for_service(request, command);
  }
}

void Pager::run(const PageChanged& command) {
  if (command.residency == Residency::resident) scrubber_.resident(command.page, command.generation);
  const bool leaves = command.residency == Residency::absent;
  if (leaves || command.residency == Residency::resident) loads_->note_residency(command.page, !leaves);
  if (command.residency == Residency::absent && to_reload_.erase(command.page) > 0) reload(command.page);
  const auto table = tables_.find(command.page.table);
  if (table == tables_.end() || !table->second.words) return;
  table->second.words->store(command.page.index, command.residency, command.generation);
}

void Pager::run(const SharingChanged& command) {
  const auto table = tables_.find(command.page.table);
  if (table == tables_.end() || !table->second.words) return;
  table->second.words->set_several(command.page.index, command.several);
}

void Pager::run(const Evicted& command) {
  stats_.evictions[static_cast<std::size_t>(command.reason)].fetch_add(1, std::memory_order_relaxed);
  if (released_page_ == command.page) released_destroyed_ = true;
  PagerDecision evicted = decision(PagerDecision::Kind::evict, command.page);
  evicted.evict_reason = command.reason;
  news_.log(std::move(evicted));
}

void Pager::run(const SessionStuck& command) {
  PagerDecision changed =
      decision(command.stuck ? PagerDecision::Kind::stuck : PagerDecision::Kind::unstuck, {});
  changed.session = command.session;
  changed.bytes = command.pages * device_.frame_bytes;
  changed.reason = FailureKind::revoke_timeout;
  news_.log(std::move(changed));
}

void Pager::send_collected(const std::optional<OutgoingCompletion>& completes) {
  PeerSession& session = *std::exchange(collecting_, nullptr);
  session.outbox().send_batch(completes);
  after_sending(session);
}

void Pager::complete_for_peer(const OpenRequest& request, const Complete& command) {
  PeerSession* session = find_session(request.session);
  if (session == nullptr || session->gone) return;
  --session->open_requests;
  const bool fault_done = request.kind == OpenRequest::Kind::fault && command.result == TicketResult::done;
  const OutgoingCompletion completion{
      .wire = {.request = request.peer_request,
               .result = static_cast<std::uint8_t>(command.result),
               // A client sees what became resident.
               .reason = command.result == TicketResult::done ? FailureKind::internal : command.reason,
               .frames = command.frames},
      .fault_received = fault_done ? std::optional(request.received) : std::nullopt};
  if (collecting_ == session && session->outbox().has_collected()) return send_collected(completion);
  session->outbox().send(completion);
  after_sending(*session);
}

void Pager::complete_for_service(const OpenRequest& request, const Complete& command) {
  if (raw(request.service_request) == 0) return;
  RequestDone done{.request = request.service_request,
                   .result = command.result,
                   .reason = command.reason,
                   .bytes = command.frames * device_.frame_bytes,
                   .kept_pinned_bytes = command.kept_pinned * device_.frame_bytes};
  if (request.kind == OpenRequest::Kind::load_table) {
    const TableReads reads = loads_->reads_of(request.table);
    const auto table = tables_.find(request.table);
    if (table != tables_.end()) done.bytes = std::min(done.bytes, table->second.bytes);
    done.direct_bytes = reads.direct_bytes - request.reads_before.direct_bytes;
    done.cached_bytes = reads.cached_bytes - request.reads_before.cached_bytes;
    if (command.result == TicketResult::failed) done.detail = loads_->failure_of(request.table);
  }
  news_.answer(std::move(done));
}

void Pager::log_outcome(const OpenRequest& request, const Complete& command) {
  if (command.result == TicketResult::cancelled) return;
  const bool offloaded = command.result == TicketResult::offloaded;
  PagerDecision outcome = decision(offloaded ? PagerDecision::Kind::offload : PagerDecision::Kind::refuse,
                                   {.table = request.table, .index = request.first});
  outcome.session = request.session;
  outcome.reason = command.reason;
  news_.log(std::move(outcome));
}

PagerDecision Pager::decision(PagerDecision::Kind kind, PageKey page) const {
  const PagerCounts counts = core_.counts();
  return {.kind = kind,
          .table = page.table,
          .page = page.index,
          .bytes = device_.frame_bytes,
          .used_bytes = counts.used_frames * device_.frame_bytes,
          .budget_bytes = counts.budget_frames * device_.frame_bytes};
}

}  // namespace penstock
