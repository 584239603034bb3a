// SPDX-License-Identifier: Apache-2.0
// EventQueue: what the library tells its user. Any thread adds; the user takes events from a descriptor, or a thread of
// the library gives them to the callback, under no lock of the library.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "dataplane/base/event_fd.hpp"
#include "dataplane/base/result.hpp"
#include "service/client/include/penstock.h"

namespace penstock {

class EventQueue {
 public:
  static constexpr std::size_t capacity =
      1024;  // With more, the oldest are lost: a user that doesn't read costs no more.

  // `callback` null: events are taken by next() when fd() is readable.
  static Result<std::unique_ptr<EventQueue>> create(pst_event_callback callback, void* context);
  ~EventQueue() { stop(); }
  EventQueue(const EventQueue&) = delete;
  EventQueue& operator=(const EventQueue&) = delete;

  // No callback runs afterwards; waits for one that does. REQUIRES: not called from the callback.
  void stop();

  void add(const pst_event& event);
  std::optional<pst_event> next();
  // -1 with a callback.
  int fd() const { return callback_ == nullptr ? readable_.fd() : -1; }

 private:
  EventQueue(EventFd readable, pst_event_callback callback, void* context);
  void deliver();

  EventFd readable_;
  pst_event_callback callback_;
  void* context_;
  std::mutex mutex_;
  std::condition_variable added_;
  std::deque<pst_event> events_;
  bool ending_ = false;
  std::thread thread_;
};

// A thread that takes no signal of the process: those belong to the application. Errc::exhausted when there is no room
// for one more.
Result<std::thread> start_quiet_thread(void (*run)(void*), void* argument);

}  // namespace penstock
