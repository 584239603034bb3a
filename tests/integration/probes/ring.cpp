// SPDX-License-Identifier: Apache-2.0
#include "tests/integration/probes/ring.hpp"

#include <fcntl.h>

namespace penstock::test {

Ring::Ring() : made_(::io_uring_queue_init(2, &ring_, 0) == 0) {}

Ring::~Ring() {
  if (made_) ::io_uring_queue_exit(&ring_);
}

bool Ring::punch_hole(int fd, std::uint64_t offset, std::uint64_t length) {
  ::io_uring_prep_fallocate(::io_uring_get_sqe(&ring_), fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                            static_cast<off_t>(offset), static_cast<off_t>(length));
  return finish();
}

bool Ring::forget(int fd, std::uint64_t offset, std::uint64_t length) {
  ::io_uring_prep_fadvise(::io_uring_get_sqe(&ring_), fd, offset, static_cast<off_t>(length),
                          POSIX_FADV_DONTNEED);
  return finish();
}

bool Ring::finish() {
  io_uring_cqe* done = nullptr;
  if (::io_uring_submit_and_wait(&ring_, 1) < 0 || ::io_uring_wait_cqe(&ring_, &done) != 0) return false;
  const bool ok = done->res >= 0;
  ::io_uring_cqe_seen(&ring_, done);
  return ok;
}

}  // namespace penstock::test
