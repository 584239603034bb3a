// SPDX-License-Identifier: Apache-2.0
// EventFd: wakes a thread that polls a descriptor. Any thread may signal; one thread waits and consumes.
#pragma once

#include "dataplane/base/result.hpp"
#include "dataplane/base/unique_fd.hpp"

namespace penstock {

class EventFd {
 public:
  // Non-blocking and close-on-exec.
  static Result<EventFd> create();

  // Makes fd() readable. Signals before a consume() fold into one. Async-signal-safe.
  void signal() const;
  // Makes fd() unreadable; true if it had been signalled.
  bool consume() const;
  int fd() const { return fd_.get(); }

 private:
  explicit EventFd(UniqueFd fd) : fd_(std::move(fd)) {}
  UniqueFd fd_;
};

}  // namespace penstock
