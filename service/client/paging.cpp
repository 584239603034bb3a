// SPDX-License-Identifier: Apache-2.0
// Paging: the connection, its tables, and what is sent.
#include "service/client/paging.hpp"

#include <algorithm>
#include <utility>

#include <sys/socket.h>

#include "service/protocol/socket_io.hpp"

namespace penstock {
namespace {

// How often a thread that waits looks whether device work has ended.
constexpr Nanoseconds device_work_interval = std::chrono::milliseconds(1);

}  // namespace

void Paging::open(std::uint64_t epoch, std::shared_ptr<const ForkAwareFd> socket, SocketWatch watch) {
  const Hold lock(*this);
  // Of the connection before, which another thread may be about to lose.
  fail_all({FailureKind::disconnected, "the connection to the service is lost", ""});
  epoch_ = epoch;
  broken_.reset();
  closing_ = false;
  last_batch_ = owed_ = 0;
  last_request_ = 0;
  socket_.open(std::move(socket), watch);
}

void Paging::lose(std::uint64_t epoch, const Failure& failure) {
  const Hold lock(*this);
  if (epoch != epoch_) return;
  fail_all(failure);
  broken_.reset();
}

std::optional<Failure> Paging::broken(std::uint64_t epoch) {
  const Hold lock(*this);
  return epoch == epoch_ ? broken_ : std::nullopt;
}

void Paging::serve() {
  const std::lock_guard lock(mutex_);
  socket_.serve([this] { receive(); }, [this] { flush(); });
}

void Paging::attach(Table& table, TableAttachment attachment) {
  const Hold lock(*this);
  table.attach(std::move(attachment));
  const TableAttachment& at = table.attachment();
  if (at.epoch != epoch_ || !socket_.is_open()) return;  // Lost meanwhile: the next fault attaches it again.
  tables_[at.number] = &table;
  if (at.overlay_number != 0) tables_[at.overlay_number] = &table;
  for (std::uint32_t page = 0; page < table.shape().pages; ++page) {
    // Without a pin, and not unmapped because device work still reads it.
    if (table.inherited(page) && pstw_pin_count(table.word(page).load(std::memory_order_relaxed)) == 0)
      list({&table, {.page = page}, true});
  }
  if (table.cutoff) send(PeerCutoff{at.number, *table.cutoff});
  if (table.prioritized) send(PeerPrioritize{at.number});
}

std::optional<std::uint32_t> Paging::detach(Table& table) {
  const Hold lock(*this);
  return detach_locked(table);
}

Paging::Detached Paging::try_detach(Table& table) {
  const Hold lock(*this);
  // Nothing of the program's runs, it says: not on pages that it has left pinned, either.
  if (idle_.load(std::memory_order_relaxed)) {
    table.mapper().forget_work();
  } else if (const Ending ending = table.mapper().ending(table.any_pinned()); ending != Ending::now) {
    return {ending, std::nullopt};
  }
  if (!table.mapper().unmap_all()) {
    // It stays known, and is tried again. What did go may be told.
    for (const PageName& lost : table.lose_unmapped()) release(lost);
    return {Ending::later, std::nullopt};
  }
  return {Ending::now, detach_locked(table)};
}

void Paging::begin_anew(Table& table) {
  const Hold lock(*this);
  for (std::uint32_t page = 0; page < table.shape().pages; ++page) {
    // Nobody knows what uses it: it can be pinned again, and be unmapped once the program says that nothing does.
    if (table.drop_pins(page)) last_unpin_locked(table, page);
  }
  table.prioritized = false;
  if (!std::exchange(table.cutoff, std::nullopt) || !table.attached(epoch_)) return;
  send(PeerCutoff{table.attachment().number, UINT32_MAX});
}

std::optional<std::uint32_t> Paging::detach_locked(Table& table) {
  std::erase_if(tables_, [&](const auto& entry) { return entry.second == &table; });
  drop_listed(table);
  if (!table.attached(epoch_) || !socket_.is_open()) return std::nullopt;
  return table.attachment().number;
}

void Paging::set_gone(std::uint32_t number, FailureKind reason) {
  const Hold lock(*this);
  if (Table* const table = table_of(number)) table->gone = reason;
}

bool Paging::attached(const Table& table, std::uint64_t epoch) {
  const Hold lock(*this);
  return table.attached(epoch);
}

Table* Paging::table_of(std::uint32_t number) const {
  const auto found = tables_.find(number);
  return found == tables_.end() ? nullptr : found->second;
}

bool Paging::send(const PeerMessage& message) {
  if (!socket_.is_open()) return false;
  const pstw_device_message wire = wire::to_wire(message, std::exchange(owed_, 0));
  if (outbox_.empty()) {
    const auto sent = send_message(socket_.fd(), std::as_bytes(std::span(&wire, 1)));
    if (sent) return true;
    if (sent.error().code == Errc::closed) return false;  // The reader finds out.
  }
  if (outbox_.size() == outbox_max) {
    // A service that leaves so much unread is taken for dead; the reader sees a hang-up.
    (void)::shutdown(socket_.fd(), SHUT_RDWR);
    return false;
  }
  outbox_.push_back(wire);
  socket_.set_writes_wait(true);
  return true;
}

void Paging::flush() {
  while (!outbox_.empty()) {
    const auto sent = send_message(socket_.fd(), std::as_bytes(std::span(&outbox_.front(), 1)));
    if (!sent && sent.error().code != Errc::closed) return;  // Not now; the kernel says when.
    outbox_.pop_front();
  }
  socket_.set_writes_wait(false);
}

std::uint64_t Paging::enlist(Request& request) {
  const std::uint64_t number = ++last_request_;
  requests_.emplace(number, &request);
  ++request.open;
  return number;
}

bool Paging::wait(std::unique_lock<std::mutex>& lock, Request& request, Nanoseconds deadline,
                  bool cooperative) {
  bool done = false;
  for (bool late = false; !done && !late;) {
    // Device work that a revoke waits for ends without telling anybody.
    const bool look_soon = cooperative && !listed_.empty();
    const Nanoseconds until =
        look_soon ? std::min(deadline, monotonic_now() + device_work_interval) : deadline;
    done = socket_.wait(
        lock, request, until, [&] { receive(&request); },
        [&] {
          if (cooperative) run_listed(true);
        });
    late = monotonic_now() >= deadline;
  }
  finish_placed();
  if (!done) {
    std::erase_if(requests_, [&](const auto& entry) {
      if (entry.second != &request) return false;
      send(PeerCancel{entry.first});
      return true;
    });
  }
  return done;
}

void Paging::break_off(Failure failure) {
  broken_ = std::move(failure);
  fail_all(*broken_);
}

void Paging::fail_all(const Failure& failure) {
  finish_placed();
  socket_.close();
  for (const auto& [number, request] : requests_) {
    request->failure = failure;
    request->done = true;
    request->ready.notify_one();
  }
  requests_.clear();
  outbox_.clear();
  fds_.clear();
  // What the lost service knew: it asks for nothing any more.
  tables_.clear();
  listed_.clear();
  listed_count_ = 0;
}

}  // namespace penstock
