// SPDX-License-Identifier: Apache-2.0
#include "tests/integration/probes/ring.hpp"

#include <fcntl.h>
#include <linux/aio_abi.h>
#include <sys/syscall.h>
#include <unistd.h>

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

ssize_t write_by_io_submit(int fd, const iovec& bytes, off_t offset) {
  aio_context_t context = 0;
  if (::syscall(SYS_io_setup, 1, &context) != 0) return -1;
  iocb request{};
  request.aio_lio_opcode = IOCB_CMD_PWRITE;
  request.aio_fildes = static_cast<std::uint32_t>(fd);
  request.aio_buf = reinterpret_cast<std::uint64_t>(bytes.iov_base);
  request.aio_nbytes = bytes.iov_len;
  request.aio_offset = offset;
  iocb* requests[] = {&request};
  io_event done{};
  const bool ok = ::syscall(SYS_io_submit, context, 1, requests) == 1 &&
                  ::syscall(SYS_io_getevents, context, 1, 1, &done, nullptr) == 1;
  ::syscall(SYS_io_destroy, context);
  return ok ? static_cast<ssize_t>(done.res) : -1;
}

}  // namespace penstock::test
