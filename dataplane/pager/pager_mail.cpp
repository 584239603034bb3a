// SPDX-License-Identifier: Apache-2.0
// What the service thread says.
#include <algorithm>
#include <utility>

#include "dataplane/base/check.hpp"
#include "dataplane/base/units.hpp"
#include "dataplane/pager/pager.hpp"

namespace penstock {
namespace {

constexpr std::uint32_t pages_after_a_death = 65536;  // 0.7 ms a session that has them attached.

}  // namespace

void Pager::take_mail() {
  mail_.drain(mail_batch_);
  for (PagerMail& message : mail_batch_) {
    std::visit([this](auto& content) { take(content); }, message);
    pump();
  }
  mail_batch_.clear();
  if (mail_.closed() && !stopping()) take(mail::Stop{});
}

void Pager::take(mail::OpenSession& message) {
  auto session = std::make_unique<PeerSession>(message.session, std::move(message.port), owner_);
  if (stopping()) {
    session->outbox().send_closing();
    news_.answer(PeerGone{.session = message.session, .reason = FailureKind::closing});
    return;
  }
  watch_.add(message.session, session->port().fd());
  const bool added = sessions_.emplace(message.session, std::move(session)).second;
  CHECK(added);
  const std::uint64_t frames = message.private_bytes_max / device_.frame_bytes;
  feed(SessionOpened{
      .session = message.session,
      .private_frames_max = message.private_bytes_max == 0
                                ? 0
                                : static_cast<std::uint32_t>(std::clamp<std::uint64_t>(frames, 1, ~0u))});
}

void Pager::take(const mail::CloseSession& message) {
  const auto found = sessions_.find(message.session);
  if (found == sessions_.end()) return;
  PeerSession& session = *found->second;
  if (!std::exchange(session.gone, true)) watch_.remove(session.id(), session.port().fd());
  // The core drops what waits for a grant; a prefetch has no session there.
  std::vector<Ticket> tickets;
  requests_.collect(message.session, tickets);
  for (const Ticket ticket : tickets) {
    const OpenRequest* request = requests_.find(ticket);
    if (request != nullptr && request->kind == OpenRequest::Kind::prefetch) {
      feed(Cancel{.ticket = ticket, .reason = FailureKind::disconnected});
    }
  }
  feed(SessionClosed{.session = message.session});
  for (const Ticket ticket : tickets) {
    if (requests_.find(ticket) != nullptr) requests_.close(ticket);
  }
  if (collecting_ == &session) collecting_ = nullptr;
  buried_.push_back(std::move(found->second));
  sessions_.erase(found);
  // Its pins are gone with it: seen at once, where there are not too many pages to look at.
  pinned_.restart();
  stats_.pinned_bytes = pinned_.advance(sessions_, pages_after_a_death) * device_.frame_bytes;
}

void Pager::take(mail::OpenTable& message) {
  const std::uint64_t whole = message.pages * device_.frame_bytes;
  // Its owner may have ended while the message was under way. Then nobody can attach it, and it only waits to be closed.
  const bool is_private = message.kind == TableKind::anonymous || message.kind == TableKind::overlay;
  const bool orphaned = is_private && find_session(message.owner) == nullptr;
  OpenedTable table{.kind = message.kind,
                    .origin = message.origin,
                    .pages = message.pages,
                    .bytes = message.source ? std::min(whole, message.source->layout.table_bytes()) : whole,
                    .words = std::move(message.words),
                    .has_source = message.source != nullptr,
                    .orphaned = orphaned};
  pages_opened_ += message.pages;
  const bool added = tables_.emplace(message.table, std::move(table)).second;
  CHECK(added);
  if (message.source) loads_->open(message.table, std::move(message.source));
  if (orphaned) return;
  feed(TableOpened{.table = message.table,
                   .kind = message.kind,
                   .pages = message.pages,
                   .owner = message.owner,
                   .origin = message.origin});
}

void Pager::take(mail::AttachTable& message) {
  PeerSession* session = find_session(message.session);
  const auto table = tables_.find(message.table);
  // Its session may have ended, or its table gone, while the message was under way.
  if (session == nullptr || table == tables_.end() || table->second.closing || table->second.orphaned) return;
  session->attach({.table = message.table,
                   .number = message.number,
                   .kind = table->second.kind,
                   .origin = table->second.origin,
                   .pages = table->second.pages,
                   .pins = std::move(message.pins),
                   .granted = {}});
  feed(TableAttached{.session = message.session, .table = message.table, .mode = message.mode});
}

void Pager::take(const mail::DetachTable& message) {
  PeerSession* session = find_session(message.session);
  if (session == nullptr || session->find(message.table) == nullptr) return;
  session->detach(message.table);
  feed(TableDetached{.session = message.session, .table = message.table});
}

void Pager::take(const mail::CloseTable& message) {
  const auto found = tables_.find(message.table);
  if (found == tables_.end() || found->second.closing) return refuse(message.request, FailureKind::not_found);
  const bool attached = std::any_of(sessions_.begin(), sessions_.end(), [&](const auto& session) {
    return session.second->find(message.table) != nullptr;
  });
  if (attached) return refuse(message.request, FailureKind::busy);
  found->second.closing = true;
  found->second.close_request = message.request;
  tables_closing_ = true;
  feed(TableClosed{.table = message.table});
}

void Pager::take(const mail::LoadTable& message) {
  const auto found = tables_.find(message.table);
  if (found == tables_.end() || found->second.closing) return refuse(message.request, FailureKind::not_found);
  const OpenedTable& table = found->second;
  if (!table.has_source || message.first > table.pages || message.count > table.pages - message.first) {
    return refuse(message.request, FailureKind::invalid_argument);
  }
  if (stopping()) return refuse(message.request, FailureKind::closing);
  const std::uint32_t count = message.count == 0 ? table.pages - message.first : message.count;
  if (count == 0) return news_.answer(RequestDone{.request = message.request});
  const Ticket ticket = requests_.open({.kind = OpenRequest::Kind::load_table,
                                        .service_request = message.request,
                                        .table = message.table,
                                        .first = message.first,
                                        .received = now_,
                                        .reads_before = loads_->reads_of(message.table)});
  feed(Prefetch{.ticket = ticket, .table = message.table, .first = message.first, .count = count});
}

void Pager::take(const mail::EvictTable& message) {
  const auto found = tables_.find(message.table);
  if (!message.any_table && (found == tables_.end() || found->second.closing)) {
    return refuse(message.request, FailureKind::not_found);
  }
  const Ticket ticket = requests_.open({.kind = OpenRequest::Kind::evict,
                                        .service_request = message.request,
                                        .table = message.table,
                                        .received = now_});
  const std::uint64_t frames =
      message.bytes / device_.frame_bytes + (message.bytes % device_.frame_bytes != 0);
  feed(EvictRequest{.ticket = ticket,
                    .any_table = message.any_table,
                    .table = message.table,
                    .frames = static_cast<std::uint32_t>(std::min<std::uint64_t>(frames, 0xffffffff))});
}

void Pager::take(const mail::MoveSource& message) {
  feed(SetSourcePlace{.table = message.table, .place = message.place});
}

void Pager::take(const mail::ChangeBudget& message) {
  const Ticket ticket = requests_.open(
      {.kind = OpenRequest::Kind::budget, .service_request = message.request, .received = now_});
  const std::uint64_t frames = std::min(message.bytes, device_.capacity_bytes) / device_.frame_bytes;
  feed(SetBudget{.ticket = ticket, .frames = static_cast<std::uint32_t>(frames)});
}

void Pager::take(const mail::Stop&) {
  if (stopping()) return;
  stop_by_ = now_ + options_.stop_deadline;
  std::vector<Ticket> tickets;
  requests_.collect(std::nullopt, tickets);
  for (const Ticket ticket : tickets) feed(Cancel{.ticket = ticket, .reason = FailureKind::closing});
  for (const auto& [id, session] : sessions_) {
    if (session->gone) continue;
    session->outbox().send_closing();
    after_sending(*session);
  }
  for (const OpenScrub& scrub : std::exchange(scrubs_, {})) refuse(scrub.request, FailureKind::closing);
  loads_->cancel_all();
  release_filled(std::nullopt);
  loads_touched_ = true;
}

void Pager::try_stop() {
  if (stopped_) return;
  std::string stuck_on;
  if (!loads_->idle()) {
    if (now_ < *stop_by_) return;
    loads_left_ = true;
    // A copy ends with the process; a read that the kernel holds may keep the process from ending.
    if (!loads_->waits_for_copies_only()) stuck_on = loads_->waits_for();
  }
  stopped_ = true;
  for (auto& [id, session] : sessions_) {
    if (!std::exchange(session->gone, true)) watch_.remove(id, session->port().fd());
    buried_.push_back(std::move(session));
  }
  sessions_.clear();
  news_.answer(PagerStopped{.copies_left = loads_left_ && stuck_on.empty(), .stuck_on = std::move(stuck_on)});
}

void Pager::refuse(RequestId request, FailureKind reason) {
  if (raw(request) == 0) return;
  news_.answer(RequestDone{.request = request, .result = TicketResult::failed, .reason = reason});
}

}  // namespace penstock
