// SPDX-License-Identifier: Apache-2.0
// Paging: what the service sends. Everything here runs under the device's lock, on whichever thread reads.
#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "service/client/paging.hpp"
#include "service/client/status.hpp"
#include "service/protocol/socket_io.hpp"

namespace penstock {
namespace {

Failure violation(const char* rule) {
  return {FailureKind::protocol_violation, fmt::format("the service broke a rule: {}", rule), ""};
}

}  // namespace

void Paging::receive(const Request* awaited) {
  flush();
  if (!listed_.empty()) run_listed(false);
  // Once what this thread waits for is there, the rest is for whoever reads next.
  while (socket_.is_open() && (awaited == nullptr || !awaited->done)) {
    const auto length = receive_message(socket_.fd(), buffer_, fds_);
    if (length) {
      handle(std::span(buffer_).first(*length));
      continue;
    }
    switch (length.error().code) {
      case Errc::busy: return;
      case Errc::closed:
        return break_off({FailureKind::disconnected, "the connection to the service is lost", ""});
      case Errc::exhausted:
        descriptors_lost(
            std::span(buffer_).first(static_cast<std::size_t>(std::max(length.error().native, 0))));
        break;
      default: return break_off(to_failure(length.error(), "reading from the service"));
    }
  }
}

void Paging::handle(std::span<const std::byte> datagram) {
  const auto message = wire::decode_device_message(datagram, fds_.size());
  if (!message) return break_off(violation(message.error().operation));
  if (const auto* batch = std::get_if<wire::GrantBatch>(&*message)) return take(*batch, std::nullopt);
  if (const auto* page = std::get_if<wire::RevokePage>(&*message)) return revoke(*page);
  if (const auto* completion = std::get_if<PeerCompletion>(&*message)) return complete(*completion);
  closing_ = true;
}

void Paging::descriptors_lost(std::span<const std::byte> datagram) {
  pstw_device_message head{};
  if (datagram.size() < sizeof head) return break_off(violation("a message is too short"));
  std::memcpy(&head, datagram.data(), sizeof head);
  const auto message = wire::decode_device_message(datagram, head.count);
  const auto* batch = message ? std::get_if<wire::GrantBatch>(&*message) : nullptr;
  if (batch == nullptr) return break_off(violation("descriptors came with another message than a grant"));
  take(*batch,
       Failure{FailureKind::fd_limit, "this process is out of descriptors: pages could not be received",
               "raise its RLIMIT_NOFILE"});
}

void Paging::take(const wire::GrantBatch& batch, const std::optional<Failure>& lost) {
  if (batch.batch() != last_batch_ + 1) return break_off(violation("grant batches are numbered one by one"));
  if (owed_ != 0) return break_off(violation("one batch at a time"));
  last_batch_ = batch.batch();
  for (std::size_t i = 0; i < batch.size(); ++i) {
    Table* const table = table_of(batch[i].table);
    fates_[i] = table == nullptr ? GrantFate::keep : table->judge(batch[i]);
    if (fates_[i] == GrantFate::violation) return break_off(violation("a page was granted that may not be"));
    if (lost && fates_[i] == GrantFate::place) {
      could_not_map(batch[i], *lost);
      fates_[i] = GrantFate::keep;
    }
  }
  {
    const auto no_fork = hold_fork();
    place(batch);
    finish(batch);
  }
  commit(batch);
  if (batch.completes()) complete(*batch.completes());
  if (batch.completes() && requests_.empty()) {
    owed_ = batch.batch();
  } else {
    send(PeerGranted{batch.batch()});
  }
  fds_.clear();  // While the service makes the next batch.
}

void Paging::place(const wire::GrantBatch& batch) {
  for (std::size_t i = 0; i < batch.size(); ++i) {
    if (fates_[i] != GrantFate::place) continue;
    Table* const table = table_of(batch[i].table);
    const auto placed = table->place(batch[i], fds_[i]);
    if (placed) continue;
    could_not_map(batch[i], table->mapper().refusal(placed.error()));
    fates_[i] = GrantFate::keep;
  }
}

void Paging::finish(const wire::GrantBatch& batch) {
  for (std::size_t i = 0; i < batch.size();) {
    if (fates_[i] != GrantFate::place) {
      ++i;
      continue;
    }
    // Neighbours are finished together: one call for a batch that is a range.
    const wire::GrantEntry first = batch[i];
    std::size_t end = i + 1;
    while (end < batch.size() && fates_[end] == GrantFate::place && batch[end].table == first.table &&
           batch[end].writable == first.writable && batch[end].page == batch[end - 1].page + 1) {
      ++end;
    }
    Table* const table = table_of(first.table);
    const auto finished = table->finish_run({first.page, static_cast<std::uint32_t>(end - i)},
                                            first.writable ? Access::read_write : Access::read);
    for (; i < end; ++i) {
      if (finished) continue;
      // What it replaced is gone already, and a page that has a pin must stay: it is kept as it is.
      if (table->mapped(batch[i].page) && table->mapper().usable_unfinished()) continue;
      table->remove(batch[i].page);
      could_not_map(batch[i], table->mapper().refusal(finished.error()));
      fates_[i] = GrantFate::keep;
    }
  }
}

void Paging::commit(const wire::GrantBatch& batch) {
  for (std::size_t i = 0; i < batch.size(); ++i) {
    if (fates_[i] == GrantFate::keep) continue;
    const wire::GrantEntry entry = batch[i];
    if (fates_[i] == GrantFate::give_back) {
      send(PeerRelease{0, entry.table, entry.page, entry.generation, false});
      continue;
    }
    Table* const table = table_of(entry.table);
    const auto replaced = table->commit(entry);
    if (replaced) send(PeerRelease{0, replaced->table, replaced->page, replaced->generation, false});
  }
}

void Paging::could_not_map(const wire::GrantEntry& entry, const Failure& failure) {
  Table* const table = table_of(entry.table);
  send(PeerRelease{0, entry.table, entry.page, entry.generation, false});
  for (const auto& [number, request] : requests_) {
    const bool wants =
        request->table == table && entry.page >= request->span.first && entry.page < request->span.end();
    if (wants) request->failure = failure;
  }
}

void Paging::complete(const PeerCompletion& completion) {
  const auto found = requests_.find(completion.request);
  if (found == requests_.end()) return;  // Nobody waits for it (any more).
  Request& request = *found->second;
  requests_.erase(found);
  --request.open;
  request.released_bytes += completion.released_bytes;
  if (const auto result = static_cast<TicketResult>(completion.result); result != TicketResult::done) {
    request.result = result;
    request.reason = completion.reason;
  }
  if (request.open > 0) return;
  if (request.pins && request.result == TicketResult::done && !request.failure) {
    request.pinned = pin_locked(*request.table, request.span) == PinOutcome::done;
  }
  request.done = true;
  request.ready.notify_one();
}

void Paging::revoke(const wire::RevokePage& revoke) {
  Table* const table = table_of(revoke.table);
  if (table == nullptr) return;  // Closed here: the message that says so is on its way.
  if (revoke.page >= table->shape().pages) return break_off(violation("a revoke leaves its table"));
  table->note_revoke(revoke.table, revoke.page, revoke.generation);
  const auto mapped = table->mapped(revoke.page);
  const PageName name = table->name_of(revoke.page);
  // Not mapped here: the release that unmapped it is the answer.
  if (!mapped || name.table != revoke.table || name.generation != revoke.generation) return;
  answer_revoke(*table, name);
}

}  // namespace penstock
