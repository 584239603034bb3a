// SPDX-License-Identifier: Apache-2.0
#include "service/client/event_queue.hpp"

#include <cerrno>
#include <csignal>
#include <system_error>
#include <utility>

#include <pthread.h>

namespace penstock {

Result<std::unique_ptr<EventQueue>> EventQueue::create(pst_event_callback callback, void* context) {
  EventFd readable = TRY(EventFd::create());
  auto queue = std::unique_ptr<EventQueue>(new EventQueue(std::move(readable), callback, context));
  if (callback != nullptr) {
    queue->thread_ =
        TRY(start_quiet_thread([](void* self) { static_cast<EventQueue*>(self)->deliver(); }, queue.get()));
  }
  return queue;
}

EventQueue::EventQueue(EventFd readable, pst_event_callback callback, void* context)
    : readable_(std::move(readable)), callback_(callback), context_(context) {}

void EventQueue::stop() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  added_.notify_one();
  thread_.join();
}

void EventQueue::add(const pst_event& event) {
  {
    const std::lock_guard lock(mutex_);
    if (events_.size() == capacity) events_.pop_front();
    events_.push_back(event);
    if (callback_ == nullptr) readable_.signal();
  }
  added_.notify_one();
}

std::optional<pst_event> EventQueue::next() {
  const std::lock_guard lock(mutex_);
  if (events_.empty()) return std::nullopt;
  const pst_event event = events_.front();
  events_.pop_front();
  if (events_.empty()) readable_.consume();
  return event;
}

void EventQueue::deliver() {
  std::unique_lock lock(mutex_);
  while (true) {
    added_.wait(lock, [&] { return ending_ || !events_.empty(); });
    if (ending_) return;
    const pst_event event = events_.front();
    events_.pop_front();
    lock.unlock();
    callback_(&event, context_);
    lock.lock();
  }
}

Result<std::thread> start_quiet_thread(void (*run)(void*), void* argument) {
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  Result<std::thread> thread = Error{Errc::exhausted, EAGAIN, "starting a thread"};
  try {
    thread = std::thread(run, argument);
  } catch (const std::system_error&) {
    // The library's only way to say that there is no thread.
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

}  // namespace penstock
