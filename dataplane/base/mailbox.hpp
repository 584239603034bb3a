// SPDX-License-Identifier: Apache-2.0
// Mailbox: a bounded queue from any number of threads to one, which polls fd().
//
// Order: the messages of one producer arrive in the order of their try_push calls.
// Bound: never more than `capacity` messages; both buffers are allocated at creation, so that neither side
// allocates later as long as the consumer drains into the same vector again and again.
// A lock is held for one push or one swap only, never while a message is handled.
#pragma once

#include <cstddef>
#include <iterator>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "dataplane/base/check.hpp"
#include "dataplane/base/event_fd.hpp"
#include "dataplane/base/result.hpp"

namespace penstock {

template <class T>
class Mailbox {
 public:
  // REQUIRES: capacity > 0.
  static Result<std::unique_ptr<Mailbox>> create(std::size_t capacity) {
    CHECK(capacity > 0);
    return std::unique_ptr<Mailbox>(new Mailbox(capacity, TRY(EventFd::create())));
  }

  // Any thread. False when full or closed; `message` is then untouched.
  [[nodiscard]] bool try_push(T&& message) {
    bool first;
    {
      const std::lock_guard lock(mutex_);
      if (closed_ || queue_.size() == capacity_) return false;
      first = queue_.empty();
      queue_.push_back(std::move(message));
    }
    // Only the first one wakes: the consumer takes all that is there.
    if (first) wake_.signal();
    return true;
  }
  [[nodiscard]] bool try_push(const T& message) { return try_push(T(message)); }

  // The consumer. Appends everything that is queued to `out`; cheapest when `out` is empty.
  void drain(std::vector<T>& out) {
    // Before the swap: a push after it signals again, so no message is left without a wake-up.
    wake_.consume();
    if (out.empty()) {
      out.reserve(capacity_);
      const std::lock_guard lock(mutex_);
      queue_.swap(out);
      return;
    }
    out.reserve(out.size() + capacity_);
    const std::lock_guard lock(mutex_);
    out.insert(out.end(), std::make_move_iterator(queue_.begin()), std::make_move_iterator(queue_.end()));
    queue_.clear();
  }

  // Any thread. Later pushes fail; what is queued can still be drained, and the consumer is woken.
  void close() {
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
    }
    wake_.signal();
  }
  bool closed() const {
    const std::lock_guard lock(mutex_);
    return closed_;
  }

  // Readable while messages wait or after close(); owned by the mailbox.
  int fd() const { return wake_.fd(); }
  std::size_t capacity() const { return capacity_; }

 private:
  Mailbox(std::size_t capacity, EventFd wake) : capacity_(capacity), wake_(std::move(wake)) {
    queue_.reserve(capacity);
  }

  const std::size_t capacity_;
  const EventFd wake_;
  mutable std::mutex mutex_;
  std::vector<T> queue_;  // Guarded by mutex_.
  bool closed_ = false;   // Guarded by mutex_.
};

}  // namespace penstock
