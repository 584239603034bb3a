// SPDX-License-Identifier: Apache-2.0
#include "dataplane/base/event_fd.hpp"

#include <cerrno>
#include <cstdint>

#include <sys/eventfd.h>
#include <unistd.h>

#include "dataplane/base/check.hpp"

namespace penstock {

Result<EventFd> EventFd::create() {
  UniqueFd fd(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!fd) return Error{Errc::exhausted, errno, "eventfd"};
  return EventFd(std::move(fd));
}

void EventFd::signal() const {
  const int saved = errno;
  const std::uint64_t one = 1;
  ssize_t written;
  do {
    written = ::write(fd_.get(), &one, sizeof one);
  } while (written < 0 && errno == EINTR);
  // EAGAIN means that the counter is at its maximum, so the descriptor is readable already.
  CHECK(written == static_cast<ssize_t>(sizeof one) || errno == EAGAIN);
  errno = saved;
}

bool EventFd::consume() const {
  std::uint64_t count = 0;
  ssize_t got;
  do {
    got = ::read(fd_.get(), &count, sizeof count);
  } while (got < 0 && errno == EINTR);
  CHECK(got == static_cast<ssize_t>(sizeof count) || errno == EAGAIN);
  return got > 0;
}

}  // namespace penstock
