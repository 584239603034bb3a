// SPDX-License-Identifier: Apache-2.0
// Client: copies of tables on GPUs that can't share memory.
#include <algorithm>
#include <set>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "service/client/client.hpp"
#include "service/client/parked_mappers.hpp"

namespace penstock {
namespace {

// More than any request waits for that nobody has to make room for.
constexpr Nanoseconds usual_patience = std::chrono::seconds(30);

// Once a process and GPU. A library has no log of its own.
void say_that_nothing_is_shared(const GpuDescription& gpu, bool counted) {
  static std::mutex& mutex = *std::make_unique<std::mutex>().release();
  static std::set<std::string>& said = *std::make_unique<std::set<std::string>>().release();
  const std::lock_guard lock(mutex);
  if (!said.insert(gpu.identity.id).second) return;
  const std::string line = fmt::format(
      "penstock: memory of {} can't be shared ({}): tables there are whole copies of this process's own{}\n",
      gpu.identity.id,
      gpu.has_vmm ? "the service has no such device, its log says why" : gpu.why_no_vmm.c_str(),
      counted ? "" : ", which the service does not count");
  static_cast<void>(!::write(STDERR_FILENO, line.data(), line.size()));
}

}  // namespace

Outcome<PlainGpu> Client::plain_gpu(const GpuName& name) {
  const std::lock_guard lock(opening_);
  return gpus_.find_plain(name);
}

Outcome<std::shared_ptr<TableCopy>> Client::copy(OpenTable& table, const PlainGpu& gpu) {
  const std::lock_guard lock(opening_);
  const GpuDescription& wanted = gpu.gpu.driver->description();
  {
    const std::lock_guard copying(copying_);
    for (MadeCopy& made : copies_) {
      if (made.of != &table || made.copy->gpu().identity.id != wanted.identity.id) continue;
      ++made.users;
      return made.copy;
    }
  }
  const TableShape& shape = table.table->shape();
  const auto booked = book_copy(wanted.identity.id, shape.bytes);
  if (!booked) return tl::unexpected(booked.error());
  auto made =
      TableCopy::create(gpu, {.bytes = shape.bytes, .page_bytes = shape.page_bytes, .pages = shape.pages});
  if (!made) {
    unbook_copy(*booked);
    return made;
  }
  (*made)->on_freed([this, number = *booked] { unbook_copy(number); });
  say_that_nothing_is_shared(wanted, *booked != 0);
  const std::lock_guard copying(copying_);
  copies_.push_back({&table, *made});
  return made;
}

void Client::close(std::shared_ptr<TableCopy> copy) {
  {
    const std::lock_guard copying(copying_);
    const auto found = std::ranges::find_if(copies_, [&](const MadeCopy& one) { return one.copy == copy; });
    if (found != copies_.end() && --found->users == 0) {
      found->of = nullptr;
      copies_wait_.store(true, std::memory_order_relaxed);
    }
  }
  copy.reset();
  end_copies();
}

void Client::end_copies() {
  if (!copies_wait_.load(std::memory_order_relaxed)) return;
  std::vector<std::shared_ptr<TableCopy>> over;
  {
    const std::lock_guard copying(copying_);
    bool waits = false;
    std::erase_if(copies_, [&](MadeCopy& one) {
      if (one.users > 0) return false;
      if (one.copy->ending() != Ending::now) return waits = true, false;
      over.push_back(std::move(one.copy));
      return true;
    });
    copies_wait_.store(waits, std::memory_order_relaxed);
  }
}

void Client::forget_copies_work() {
  const std::lock_guard copying(copying_);
  for (const MadeCopy& one : copies_) one.copy->forget_work();
}

void Client::leave_copies() {
  const Nanoseconds deadline = monotonic_now() + patience_at_the_end;
  for (MadeCopy& one : copies_) {
    Ending ending = one.copy->ending();
    while (ending == Ending::later && monotonic_now() < deadline) {
      std::this_thread::sleep_for(device_work_interval);
      ending = one.copy->ending();
    }
    if (ending == Ending::now) continue;
    one.copy->on_freed({});  // The service counts nothing of a session that has ended.
    park(std::move(one.copy));
  }
  copies_.clear();
}

Outcome<std::uint64_t> Client::book_copy(const std::string& gpu, std::uint64_t bytes) {
  wire::BookCopy message{.gpu = gpu, .copy = 0, .bytes = bytes, .exists = false};
  {
    // Before it is asked: a new connection meanwhile hears of it, too.
    const std::lock_guard lock(booking_);
    message.copy = ++last_booked_;
    booked_.emplace(message.copy, message);
  }
  const auto reply = ask<wire::Done>(message, patience(usual_patience));
  if (reply) return message.copy;
  unbook_copy(message.copy);
  // A GPU that the configuration turns off, or that the service does not see: as much the user's as the programs'.
  if (reply.error().kind == FailureKind::not_found) return 0;
  return tl::unexpected(reply.error());
}

void Client::unbook_copy(std::uint64_t number) {
  // Held while it is sent, so that no new connection is told of it afterwards.
  const std::lock_guard lock(booking_);
  const auto found = booked_.find(number);
  if (found == booked_.end()) return;
  wire::BookCopy message = found->second;
  booked_.erase(found);
  message.bytes = 0;
  if (const auto epoch = present_connection()) post_on(*epoch, message);
}

void Client::book_copies_again(std::uint64_t epoch) {
  const std::lock_guard lock(booking_);
  for (const auto& [number, booked] : booked_) {
    wire::BookCopy message = booked;
    message.exists = true;
    post_on(epoch, message);
  }
}

Outcome<void> Client::fill(TableCopy& copy, OpenTable& table, PageSpan span, Nanoseconds deadline) {
  Table& from = *table.table;
  const PageSource source{.address = from.address(),
                          .pin = [&](PageSpan run) { return fault(table, run, deadline); },
                          .unpin = [&](PageSpan run) { static_cast<void>(from.paging().unpin(from, run)); }};
  return copy.fill(span, source, deadline);
}

}  // namespace penstock
