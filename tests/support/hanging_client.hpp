// SPDX-License-Identifier: Apache-2.0
// A client of a KernelWatch whose memory takes as long to read as a test wants, and the text of a file of stalls.
#pragma once

#include <cstdint>
#include <latch>
#include <string>

#include <fmt/format.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "service/control/kernel_watch.hpp"

namespace penstock::test {

inline std::string stalls_text(std::int64_t microseconds) {
  return fmt::format(
      "some avg10=0.00 avg60=0.00 avg300=0.00 total={0}\n"
      "full avg10=0.00 avg60=0.00 avg300=0.00 total={0}\n",
      microseconds);
}

// REQUIRES: it outlives the watch, and is let go before that ends.
class HangingClient {
 public:
  // For KernelWatch::Options::read_process.
  Result<ProcessMemory> read() {
    if (!entered_.try_wait()) entered_.count_down();  // It is read again and again, by one thread.
    hang_.wait();
    return ProcessMemory{};
  }
  // Returns when its memory is being read.
  void be_followed_by(KernelWatch& watch) {
    const UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0)));
    watch.follow_client(3, {.pid = ::getpid(), .pidfd = pidfd.get()});
    entered_.wait();
  }
  void let_go() { hang_.count_down(); }

 private:
  std::latch entered_{1}, hang_{1};
};

}  // namespace penstock::test
