// SPDX-License-Identifier: Apache-2.0
#include "service/client/shared_socket.hpp"

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <utility>

#include <sched.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "dataplane/base/check.hpp"

namespace penstock {

Result<SocketWatch> SocketWatch::add(int epoll, int fd, std::uint64_t key) {
  epoll_event event{};
  event.events = EPOLLONESHOT;
  event.data.u64 = key;
  if (::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) != 0) return Error{Errc::exhausted, errno, "epoll_ctl"};
  return SocketWatch(epoll, fd, key);
}

void SocketWatch::arm(std::uint32_t events) {
  if (armed_ == events) return;
  epoll_event event{};
  event.events = events | EPOLLONESHOT;
  event.data.u64 = key_;
  CHECK(::epoll_ctl(epoll_, EPOLL_CTL_MOD, fd_, &event) == 0);
  armed_ = events;
}

void SocketWatch::remove() {
  if (epoll_ >= 0) (void)::epoll_ctl(epoll_, EPOLL_CTL_DEL, fd_, nullptr);
  epoll_ = -1;
}

void SharedSocket::open(std::shared_ptr<const ForkAwareFd> socket, SocketWatch watch) {
  CHECK(!is_open());
  socket_ = std::move(socket);
  watch_ = watch;
  writes_wait_ = false;
  read_by_waiter_ = false;
  arm_watch();
}

void SharedSocket::close() {
  if (!is_open()) return;
  watch_.remove();
  // Wakes the thread that polls it; the descriptor itself lives until that one has let go.
  (void)::shutdown(socket_->get(), SHUT_RDWR);
  socket_.reset();
  wake_waiters();
}

void SharedSocket::set_writes_wait(bool wait) {
  if (writes_wait_ == wait) return;
  writes_wait_ = wait;
  if (is_open()) arm_watch();
}

void SharedSocket::arm_watch() {
  watch_.arm((read_by_waiter_ ? 0u : EPOLLIN) | (writes_wait_ ? EPOLLOUT : 0u));
}

void SharedSocket::wake_waiters() {
  for (Waiter* const waiter : waiters_) waiter->ready.notify_one();
}

void SharedSocket::leave(Waiter& waiter, bool was_reader) {
  std::erase(waiters_, &waiter);
  if (was_reader) read_by_waiter_ = false;
  if (read_by_waiter_) return;
  const auto next =
      std::find_if(waiters_.begin(), waiters_.end(), [](const Waiter* one) { return !one->done; });
  if (next != waiters_.end()) {
    (*next)->ready.notify_one();  // It reads on.
  } else if (is_open()) {
    arm_watch();
  }
}

bool yield_once(Linger& linger) {
  const Nanoseconds before = monotonic_now();
  if (!linger.lingers(before)) return false;
  ::sched_yield();
  linger.yielded(before, monotonic_now());
  return true;
}

void poll_until(int fd, short events, Nanoseconds deadline) {
  pollfd one{fd, events, 0};
  timespec left{};
  if (deadline != never) {
    const std::int64_t nanoseconds = std::max<std::int64_t>((deadline - monotonic_now()).count(), 0);
    left = {static_cast<time_t>(nanoseconds / 1'000'000'000), static_cast<long>(nanoseconds % 1'000'000'000)};
  }
  (void)::ppoll(&one, 1, deadline == never ? nullptr : &left, nullptr);
}

}  // namespace penstock
