// SPDX-License-Identifier: Apache-2.0
// Uring: owns one io_uring. Knows which setup flags the kernel has, when to enter it, and when it is refused.
//
// Thread rule: one thread from open to destruction (a single-issuer ring refuses every other).
#pragma once

#include <liburing.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "dataplane/base/failure.hpp"
#include "dataplane/base/result.hpp"

namespace penstock {

class Uring {
 public:
  // A ring that has proved itself: a no-op went through it, since a sandbox may allow the setup and refuse
  // the entry. FailureKind::unsupported with the errno's name and the value of kernel.io_uring_disabled.
  static Outcome<std::unique_ptr<Uring>> open(std::uint32_t entries);
  ~Uring();
  Uring(const Uring&) = delete;
  Uring& operator=(const Uring&) = delete;

  // False: files are then named by descriptor. An entry of -1 or a table that stays sparse costs nothing.
  bool register_files(std::uint32_t count);
  Result<> set_file(std::uint32_t index, int fd);
  // Signals the eventfd when completions come or wait to be collected. The ring's own descriptor does not become
  // readable for those that wait (IORING_SETUP_DEFER_TASKRUN): a thread in epoll_wait would sleep on.
  Outcome<void> register_event(int event_fd);
  // REQUIRES: each piece at most 1 GiB. Errc::exhausted when the limit of locked memory is too low.
  Result<> register_buffers(std::span<const std::span<std::byte>> pieces);

  // REQUIRES: room, which the caller counts. Zeroed but for what the caller prepares.
  io_uring_sqe* next_entry();
  // Hands the kernel what next_entry prepared. Entries that it can't take now (EAGAIN, EBUSY) stay prepared,
  // and go with the next call. Errc::unsupported when io_uring_enter is refused; the ring is useless from
  // then on.
  Result<> submit();
  // Enters the kernel if completions wait for that (deferred task work). Then available() counts them all.
  Result<> collect();
  bool can_collect() const;
  // Blocks until one completion is there. For ends of life only.
  Result<> wait();

  // Calls visit(user_data, result) for up to `count` completions and consumes them.
  template <class Visit>
  std::size_t consume(std::size_t count, Visit visit) {
    std::size_t seen = 0;
    unsigned head = 0;
    io_uring_cqe* entry = nullptr;
    io_uring_for_each_cqe(&ring_, head, entry) {
      if (seen == count) break;
      visit(entry->user_data, entry->res);
      ++seen;
    }
    io_uring_cq_advance(&ring_, static_cast<unsigned>(seen));
    return seen;
  }

  bool refused() const { return refused_; }
  std::uint32_t unsubmitted() const { return io_uring_sq_ready(&ring_); }

 private:
  Uring() = default;
  Result<> answer(int rc, const char* operation);
  bool work_waits() const;

  io_uring ring_{};
  bool open_ = false;
  bool refused_ = false;
};

}  // namespace penstock
