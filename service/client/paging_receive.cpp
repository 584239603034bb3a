// SPDX-License-Identifier: Apache-2.0
// Paging: what the service sends. Everything here runs under the device's lock, on whichever thread reads.
#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "dataplane/base/resource_limits.hpp"
#include "service/client/paging.hpp"
#include "service/client/status.hpp"
#include "service/protocol/socket_io.hpp"

namespace penstock {
namespace {

Failure violation(const char* rule) {
  return {FailureKind::protocol_violation, fmt::format("the service broke a rule: {}", rule), ""};
}

// For the next batch, as many for the driver, which may hold one a page, and some for the program.
constexpr std::uint64_t descriptors_spare = 3 * UniqueFds::capacity;

// Pages that one access call may make accessible, if they lie side by side.
bool belongs_to(const wire::GrantEntry& one, const wire::GrantEntry& other) {
  return other.table == one.table && other.writable == one.writable;
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
  finish_placed();
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
  if (lost || !continues_run(batch)) finish_placed();
  for (std::size_t i = 0; i < batch.size(); ++i) {
    Table* const table = table_of(batch[i].table);
    fates_[i] = table == nullptr ? GrantFate::keep : table->judge(batch[i]);
    if (fates_[i] == GrantFate::violation) return break_off(violation("a page was granted that may not be"));
    if (fates_[i] == GrantFate::place && table->replaces(batch[i]) && !may_replace(*table, batch[i].page)) {
      fail_waiters(batch[i], {FailureKind::busy, "device work still uses a page that was to be replaced",
                              "synchronise before, and let no other thread use the page meanwhile"});
      fates_[i] = GrantFate::give_back;
    }
    if (lost && fates_[i] == GrantFate::place) {
      could_not_map(batch[i], *lost);
      fates_[i] = GrantFate::keep;
    }
  }
  place(batch);
  // Unless this is the end of a request, the rest of the range is on its way.
  const bool may_wait = placed_.empty() || table_of(placed_.front().table)->mapper().gains_by_waiting();
  if (batch.completes() || !may_wait || short_of_descriptors()) finish_placed();
  if (batch.completes()) complete(*batch.completes());
  if (batch.completes() && requests_.empty()) {
    owed_ = batch.batch();
  } else {
    send(PeerGranted{batch.batch()});
  }
  fds_.clear();  // While the service makes the next batch.
}

void Paging::place(const wire::GrantBatch& batch) {
  const auto no_fork = hold_fork();
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const wire::GrantEntry entry = batch[i];
    if (fates_[i] == GrantFate::give_back)
      send(PeerRelease{0, entry.table, entry.page, entry.generation, false});
    if (fates_[i] != GrantFate::place) continue;
    auto placed = place(entry, i);
    if (!placed && !placed_fds_.empty()) {
      finish_placed();  // Maybe it was for want of what those hold.
      placed = place(entry, i);
    }
    if (!placed) could_not_map(entry, table_of(entry.table)->mapper().refusal(placed.error()));
  }
}

Result<> Paging::place(const wire::GrantEntry& entry, std::size_t at) {
  Table* const table = table_of(entry.table);
  TRY(table->place(entry, fds_[at]));
  placed_.push_back(entry);
  if (table->mapper().needs_descriptors()) placed_fds_.push_back(fds_.take(at));
  return {};
}

bool Paging::short_of_descriptors() const {
  if (placed_fds_.empty()) return false;
  const auto limit = open_files_limit();
  std::uint64_t used = open_descriptors();
  // Where the kernel does not tell: numbers are given out from the lowest on, so that as many are in use as the highest
  // that came, and those that the driver took for the pages since.
  if (used == 0) {
    const auto highest = std::ranges::max_element(placed_fds_, {}, &UniqueFd::get);
    used = static_cast<std::uint64_t>(highest->get()) + 1 + UniqueFds::capacity;
  }
  return !limit || used + descriptors_spare > limit->soft;
}

bool Paging::may_replace(Table& table, std::uint32_t page) const {
  if (table.mapper().replaces_at_once()) return true;
  // Whoever waited for it no longer may be using the page by now.
  const auto waits = std::ranges::any_of(requests_, [&](const auto& entry) {
    const Request& request = *entry.second;
    return request.replaces && request.table == &table && page >= request.span.first &&
           page < request.span.end();
  });
  return waits && table.mapper().quiet(page);
}

bool Paging::continues_run(const wire::GrantBatch& batch) const {
  return placed_.empty() || (batch.size() > 0 && belongs_to(placed_.back(), batch[0]));
}

void Paging::finish_placed() {
  const auto gap = [](const wire::GrantEntry& one, const wire::GrantEntry& next) {
    return next.page != one.page + 1;
  };
  for (auto first = placed_.begin(); first != placed_.end();) {
    const auto others =
        std::find_if(first, placed_.end(), [&](const auto& entry) { return !belongs_to(*first, entry); });
    // They came as they were ready. A page is there once: between two grants of it comes a revoke, which ends this.
    std::sort(first, others, [](const auto& one, const auto& other) { return one.page < other.page; });
    while (first != others) {
      const auto last = std::adjacent_find(first, others, gap);
      const auto end = last == others ? last : last + 1;
      finish_run(std::span(first, end));
      first = end;
    }
  }
  placed_.clear();
  placed_fds_.clear();
}

void Paging::finish_run(std::span<const wire::GrantEntry> run) {
  Table* const table = table_of(run.front().table);
  const auto finished = table->finish_run({run.front().page, static_cast<std::uint32_t>(run.size())},
                                          run.front().writable ? Access::read_write : Access::read);
  for (const wire::GrantEntry& entry : run) {
    // What it replaced is gone already, and a page that has a pin must stay: it is kept as it is.
    if (!finished && !(table->mapped(entry.page) && table->mapper().usable_unfinished())) {
      const Failure refusal = table->mapper().refusal(finished.error());
      if (table->remove(entry.page)) {
        could_not_map(entry, refusal);
        continue;
      }
      // It takes memory for as long as it is mapped here: the service hears of it when it is not.
      if (const auto replaced = table->keep_unfinished(entry)) release(*replaced, entry.writable);
      list({table, {entry.table, entry.page, entry.generation}, false, true});
      fail_waiters(entry, refusal);
      continue;
    }
    // Whoever made it private has no use for the shared one any more.
    if (const auto replaced = table->commit(entry)) release(*replaced, entry.writable);
  }
}

void Paging::could_not_map(const wire::GrantEntry& entry, const Failure& failure) {
  release({entry.table, entry.page, entry.generation});
  // What was to be replaced may be gone already.
  if (const auto lost = table_of(entry.table)->lose(entry.page)) release(*lost);
  fail_waiters(entry, failure);
}

void Paging::fail_waiters(const wire::GrantEntry& entry, const Failure& failure) {
  const Table* const table = table_of(entry.table);
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
