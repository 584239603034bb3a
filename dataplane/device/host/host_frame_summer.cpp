// SPDX-License-Identifier: Apache-2.0
#include "dataplane/device/host/host_frame_summer.hpp"

#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include "dataplane/base/mapping.hpp"
#include "dataplane/kernels/convert.hpp"

namespace penstock {
namespace {

constexpr int lowest_priority = 19;

Result<std::uint64_t> sum_of(UniqueFd frame, std::uint64_t bytes) {
  // Aligned to huge pages, so that mapping a frame of them is a few page faults.
  const Mapping memory = TRY(Mapping::shared(frame.get(), bytes, Access::read, 0, huge_page_bytes));
  return checksum(memory.bytes());
}

}  // namespace

HostFrameSummer::HostFrameSummer() : thread_([this] { run(); }) {}

HostFrameSummer::~HostFrameSummer() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  work_.notify_one();
  thread_.join();
}

Result<> HostFrameSummer::start(FrameId, int frame_fd, std::uint64_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    if (busy_) return Error{Errc::busy, 0, "frame summer"};
    UniqueFd own(::fcntl(frame_fd, F_DUPFD_CLOEXEC, 0));
    if (!own) return Error{Errc::exhausted, errno, "dup of a frame"};
    wanted_ = std::move(own);
    bytes_ = bytes;
    busy_ = true;
  }
  work_.notify_one();
  return {};
}

std::optional<Result<std::uint64_t>> HostFrameSummer::take() {
  const std::lock_guard lock(mutex_);
  if (!answer_) return std::nullopt;
  busy_ = false;
  return std::exchange(answer_, std::nullopt);
}

void HostFrameSummer::run() {
  ::pthread_setname_np(::pthread_self(), "penstock-scrub");
  // Of this thread alone, on Linux. Refused: the sums compete, at their low rate.
  static_cast<void>(::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), lowest_priority));
  std::unique_lock lock(mutex_);
  while (true) {
    work_.wait(lock, [this] { return wanted_ || stopping_; });
    if (stopping_) return;
    UniqueFd frame = std::move(wanted_);
    const std::uint64_t bytes = bytes_;
    lock.unlock();
    const Result<std::uint64_t> sum = sum_of(std::move(frame), bytes);
    lock.lock();
    answer_ = sum;
  }
}

}  // namespace penstock
