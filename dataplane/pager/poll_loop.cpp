// SPDX-License-Identifier: Apache-2.0
#include "dataplane/pager/poll_loop.hpp"

#include <algorithm>
#include <cerrno>
#include <memory>

#include <sys/epoll.h>

#include "dataplane/base/check.hpp"

namespace penstock {
namespace {

// The key of a descriptor: bit 32 tells sources from sessions.
constexpr std::uint64_t source_bit = 1ull << 32;

constexpr int events_max = 64;

}  // namespace

Result<std::unique_ptr<PollLoop>> PollLoop::create() {
  UniqueFd epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) return Error{.code = Errc::exhausted, .native = errno, .operation = "epoll_create1"};
  return std::unique_ptr<PollLoop>(new PollLoop(std::move(epoll)));
}

Result<> PollLoop::watch(int fd, Source source) {
  if (fd < 0) return {};
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = source_bit | static_cast<std::uint64_t>(source);
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0) return {};
  return Error{.code = Errc::exhausted, .native = errno, .operation = "epoll_ctl"};
}

void PollLoop::add(SessionId session, int fd) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = raw(session);
  // Fails only past the system's limit of watches; then the client is not heard, and its own deadline ends it.
  static_cast<void>(::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event));
}

void PollLoop::set_writable(SessionId session, int fd, bool watched) {
  epoll_event event{};
  event.events = EPOLLIN | (watched ? static_cast<std::uint32_t>(EPOLLOUT) : 0u);
  event.data.u64 = raw(session);
  static_cast<void>(::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event));
}

void PollLoop::remove(SessionId, int fd) {
  static_cast<void>(::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr));
}

bool PollLoop::wait(std::optional<Nanoseconds> timeout) {
  std::array<epoll_event, events_max> events;
  sources_ = {};
  readable_.clear();
  writable_.clear();
  timespec bound{};
  if (timeout) {
    const auto whole = std::chrono::duration_cast<std::chrono::seconds>(std::max(*timeout, Nanoseconds{0}));
    bound.tv_sec = whole.count();
    bound.tv_nsec = (std::max(*timeout, Nanoseconds{0}) - whole).count();
  }
  const int count =
      ::epoll_pwait2(epoll_.get(), events.data(), events_max, timeout ? &bound : nullptr, nullptr);
  CHECK(count >= 0 || errno == EINTR);
  for (int index = 0; index < count; ++index) {
    const epoll_event& event = events[static_cast<std::size_t>(index)];
    if ((event.data.u64 & source_bit) != 0) {
      sources_[event.data.u64 & 3] = true;
      continue;
    }
    const SessionId session{static_cast<std::uint32_t>(event.data.u64)};
    if ((event.events & ~static_cast<std::uint32_t>(EPOLLOUT)) != 0) readable_.push_back(session);
    if ((event.events & EPOLLOUT) != 0) writable_.push_back(session);
  }
  return count > 0;
}

}  // namespace penstock
