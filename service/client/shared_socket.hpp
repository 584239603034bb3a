// SPDX-License-Identifier: Apache-2.0
// SharedSocket: one socket that several threads wait on. Whichever thread waits reads it, one at a time; the others wait
// on a condition; the agent's thread reads only while nobody waits, so that an answer wakes one thread and not two.
//
// All members are called with the owner's lock held, except where said. The owner's `receive` handles what is there
// without blocking, and sets `done` of the waiters whose answer came.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include <poll.h>

#include "dataplane/base/clock.hpp"
#include "dataplane/base/linger.hpp"
#include "dataplane/base/result.hpp"
#include "service/client/fork_gate.hpp"

namespace penstock {

// `never` stays `never`.
inline Nanoseconds deadline_in(Nanoseconds time) { return time == never ? never : monotonic_now() + time; }

// One thread that waits for something. Lives on its stack.
struct Waiter {
  bool done = false;
  std::condition_variable ready;
};

// The socket's place in the agent's epoll set: reports once, then rests until it is armed again.
class SocketWatch {
 public:
  SocketWatch() = default;
  // At rest. `key` comes back from epoll.
  static Result<SocketWatch> add(int epoll, int fd, std::uint64_t key);
  // Events of epoll to report next; 0: rest.
  void arm(std::uint32_t events);
  // The agent was told: the kernel has put the watch to rest.
  void reported() { armed_ = 0; }
  void remove();

 private:
  SocketWatch(int epoll, int fd, std::uint64_t key) : epoll_(epoll), fd_(fd), key_(key) {}

  int epoll_ = -1;
  int fd_ = -1;
  std::uint64_t key_ = 0;
  std::uint32_t armed_ = 0;
};

class SharedSocket {
 public:
  // The agent reads from now on.
  void open(std::shared_ptr<const ForkAwareFd> socket, SocketWatch watch);
  // Hang-up, for whatever reason: nothing is read any more. The waiters are the owner's to tell.
  void close();
  bool is_open() const { return socket_ != nullptr; }
  int fd() const { return socket_ ? socket_->get() : -1; }
  std::shared_ptr<const ForkAwareFd> shared() const { return socket_; }  // To use it without the lock.

  // Waits until the waiter is done, calling `receive` and, after each wake-up, `step`. False when the deadline passed.
  template <class Receive, class Step>
  bool wait(std::unique_lock<std::mutex>& lock, Waiter& waiter, Nanoseconds deadline, Receive receive,
            Step step);

  // The agent was told that there is something to do. `flush` sends what waits.
  template <class Receive, class Flush>
  void serve(Receive receive, Flush flush);

  // There is something to send when the socket allows it, or there is no more. The agent does that.
  void set_writes_wait(bool wait);
  // Wakes all that wait, to look at their conditions again.
  void wake_waiters();

 private:
  void arm_watch();
  // Somebody goes on reading when this waiter leaves: the next one, or the agent.
  void leave(Waiter& waiter, bool was_reader);

  std::shared_ptr<const ForkAwareFd> socket_;
  SocketWatch watch_;
  bool read_by_waiter_ = false;
  bool writes_wait_ = false;
  std::vector<Waiter*> waiters_;
  Linger linger_{std::chrono::microseconds(30)};  // Most answers come within; a load doesn't.
};

// Lets others run, if `linger` says that a look at the socket is worth it after that. REQUIRES: no lock is held.
bool yield_once(Linger& linger);
// Blocks until one of `events` of poll, hang-up, a signal or the deadline. REQUIRES: no lock is held.
void poll_until(int fd, short events, Nanoseconds deadline);

template <class Receive, class Step>
bool SharedSocket::wait(std::unique_lock<std::mutex>& lock, Waiter& waiter, Nanoseconds deadline,
                        Receive receive, Step step) {
  bool reader = false;
  waiters_.push_back(&waiter);
  linger_.begin(monotonic_now());
  while (!waiter.done && monotonic_now() < deadline) {
    if (is_open() && (reader || !read_by_waiter_)) {
      if (!reader) {
        reader = read_by_waiter_ = true;
        arm_watch();
      }
      const std::shared_ptr<const ForkAwareFd> socket = socket_;  // Stays open while it is polled.
      Linger linger = linger_;
      lock.unlock();
      // What comes while it lingers is found by the receive itself.
      if (!yield_once(linger)) poll_until(socket->get(), POLLIN, deadline);
      lock.lock();
      linger_ = linger;
      reader = socket == socket_;
      if (reader) receive();
      reader = socket == socket_;
    } else if (deadline == never) {
      waiter.ready.wait(lock);
    } else {
      waiter.ready.wait_until(lock, std::chrono::steady_clock::time_point(deadline));
    }
    step();
  }
  leave(waiter, reader);
  return waiter.done;
}

template <class Receive, class Flush>
void SharedSocket::serve(Receive receive, Flush flush) {
  watch_.reported();
  if (is_open()) flush();
  if (is_open() && !read_by_waiter_) receive();
  if (is_open()) arm_watch();
}

}  // namespace penstock
