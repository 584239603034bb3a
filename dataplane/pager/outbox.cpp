// SPDX-License-Identifier: Apache-2.0
#include "dataplane/pager/outbox.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "dataplane/base/check.hpp"

namespace penstock {

Outbox::Outbox(PeerPort& port, FrameOwner& frames) : port_(port), frames_(frames) {
  batch_.reserve(grant_batch_pages);
  descriptors_.reserve(grant_batch_pages);
  completed_faults_.reserve(16);
}

void Outbox::add(const Grant& grant, TableNumber table) {
  CHECK(!unacknowledged_ && batch_.size() < grant_batch_pages);
  CHECK(!collected_);
  if (batch_.empty()) spoiled_ = false;
  batch_.push_back({.grant = grant, .table = table});
  collected_ = grant.last;
}

void Outbox::send_batch(const std::optional<OutgoingCompletion>& completes) {
  CHECK(collected_);
  collected_ = false;
  unacknowledged_ = batch_.front().grant.batch;
  send_or_queue(BatchMark{.completes = completes});
}

void Outbox::send(const Revoke& revoke, TableNumber table) {
  send_or_queue(OutgoingRevoke{.revoke = revoke, .table = table});
}
void Outbox::send(const OutgoingCompletion& completion) { send_or_queue(completion); }
void Outbox::send_closing() { send_or_queue(ClosingMark{}); }

void Outbox::forget(TableNumber table) {
  // Their frames may be somebody else's soon. A batch without pages is settled when its turn comes.
  std::erase_if(batch_, [table](const OutgoingGrant& each) { return each.table == table; });
  std::erase_if(queue_, [table](const Message& message) {
    const auto* revoke = std::get_if<OutgoingRevoke>(&message);
    return revoke != nullptr && revoke->table == table;
  });
}

void Outbox::send_or_queue(const Message& message) {
  if (state_ == State::gone || state_ == State::overflow) return;
  if (queue_.empty() && try_send(message)) return;
  if (state_ == State::gone) return;
  if (queue_.size() >= queue_max_) {
    state_ = State::overflow;
    return;
  }
  queue_.push_back(message);
}

void Outbox::flush() {
  if (state_ == State::gone || state_ == State::overflow) return;
  while (!queue_.empty()) {
    if (!try_send(queue_.front())) return;
    queue_.pop_front();
  }
  state_ = State::open;
}

// False when it has to wait, or the peer is gone: see state_.
bool Outbox::try_send(const Message& message) {
  const Result<> sent = std::visit([this](const auto& content) { return transmit(content); }, message);
  if (sent) return true;
  switch (sent.error().code) {
    case Errc::busy: state_ = State::writable; break;
    case Errc::exhausted: state_ = State::later; break;
    default: state_ = State::gone; break;
  }
  return false;
}

Result<> Outbox::transmit(const BatchMark& mark) {
  std::array<GrantedPage, grant_batch_pages> pages;
  descriptors_.clear();
  for (std::size_t index = 0; index < batch_.size();) {
    const Grant& grant = batch_[index].grant;
    Result<ExportedFrame> shared = frames_.share(
        grant.frame, grant.writable ? FrameAccess::private_writable : FrameAccess::shared_read_only);
    if (!shared) {
      unshared_.push_back({.page = grant.page, .generation = grant.generation});
      batch_.erase(batch_.begin() + static_cast<std::ptrdiff_t>(index));
      spoiled_ = true;
      continue;
    }
    pages[index] = {.table = raw(batch_[index].table),
                    .page = grant.page.index,
                    .generation = raw(grant.generation),
                    .writable = grant.writable,
                    .fd = shared->get()};
    descriptors_.push_back(*std::move(shared));
    ++index;
  }
  std::optional<OutgoingCompletion> completes = mark.completes;
  if (completes && spoiled_) {
    completes->wire.result = static_cast<std::uint8_t>(TicketResult::failed);
    completes->wire.reason = FailureKind::fd_limit;
    completes->fault_received.reset();
  }
  if (batch_.empty()) {
    TRY(transmit_completion(completes));
    void_batch_ = std::exchange(unacknowledged_, std::nullopt);
    return {};
  }
  const std::optional<PeerCompletion> wire = completes ? std::optional(completes->wire) : std::nullopt;
  const Result<> sent = port_.send_grants(*unacknowledged_, {pages.data(), batch_.size()}, wire);
  descriptors_.clear();
  if (!sent) return sent;
  batch_.clear();
  has_left(completes);
  return {};
}

Result<> Outbox::transmit(const OutgoingRevoke& message) {
  return port_.send_revoke(raw(message.table), message.revoke.page.index, raw(message.revoke.generation));
}

Result<> Outbox::transmit(const OutgoingCompletion& completion) { return transmit_completion(completion); }
Result<> Outbox::transmit(const ClosingMark&) { return port_.send_closing(); }

Result<> Outbox::transmit_completion(const std::optional<OutgoingCompletion>& completion) {
  if (!completion) return {};
  TRY(port_.send_completion(completion->wire));
  has_left(completion);
  return {};
}

void Outbox::has_left(const std::optional<OutgoingCompletion>& completion) {
  if (completion && completion->fault_received) completed_faults_.push_back(*completion->fault_received);
}

bool Outbox::acknowledge(std::uint32_t batch) {
  // A batch that waits in the queue has not been seen by the client: batch_ is empty once it has left.
  if (unacknowledged_ != batch || !batch_.empty()) return false;
  unacknowledged_.reset();
  return true;
}

bool Outbox::holds(PageKey page, Generation generation) const {
  return std::ranges::any_of(batch_, [&](const OutgoingGrant& each) {
    return each.grant.page == page && each.grant.generation == generation;
  });
}

std::optional<std::uint32_t> Outbox::take_void_batch() { return std::exchange(void_batch_, std::nullopt); }

}  // namespace penstock
