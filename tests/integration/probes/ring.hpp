// SPDX-License-Identifier: Apache-2.0
// An io_uring that is asked for one thing at a time.
#pragma once

#include <cstdint>

#include <liburing.h>
#include <sys/types.h>
#include <sys/uio.h>

namespace penstock::test {

class Ring {
 public:
  Ring();
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;
  ~Ring();
  explicit operator bool() const { return made_; }  // Whether the kernel allows one.

  bool punch_hole(int fd, std::uint64_t offset, std::uint64_t length);
  bool forget(int fd, std::uint64_t offset, std::uint64_t length);  // By fadvise.

 private:
  bool finish();

  io_uring ring_{};
  bool made_;
};

// Writes through the older interface, that of io_submit(2), and waits; what was written, or less than 0.
ssize_t write_by_io_submit(int fd, const iovec& bytes, off_t offset);

}  // namespace penstock::test
