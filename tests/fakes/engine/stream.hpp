// SPDX-License-Identifier: Apache-2.0
// Streams run late: each has a thread of its own that waits before every piece of work, by an amount that differs
// between streams, so that work of two streams is out of order unless an event orders it.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "dataplane/device/cuda/cuda_abi.h"

namespace penstock::fake {

class Context;

// The end of one piece of work.
class Completion {
 public:
  void finish();
  bool is_done();
  void wait();
  void wait_for_us(std::uint32_t bound);

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
};
using Point = std::shared_ptr<Completion>;

enum class Capture : std::uint8_t { none, active, invalidated };

class Stream {
 public:
  // `serial` decides its delays. A blocking stream and the null stream wait for each other.
  Stream(Context& context, std::uint64_t serial, bool blocking);
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  // Work returns 0, or the code that kills the context. It is skipped once the context is dead.
  Point push(std::function<CudaResult()> work, std::vector<Point> after);
  Point tail();
  Context& context() { return context_; }
  bool is_blocking() const { return blocking_; }
  // The thread ends after what is queued; the object stays, for its late users are to be found out.
  void retire();
  bool is_retired();

  Capture capture = Capture::none;  // Guarded by the context's lock.
  bool capture_is_global = false;   // Unsafe calls of any thread invalidate it.

 private:
  struct Item {
    std::function<CudaResult()> work;
    std::vector<Point> after;
    Point done;
  };
  void run();
  std::uint32_t next_delay_us();

  Context& context_;
  const std::uint64_t serial_;
  const bool blocking_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item> queue_;
  Point tail_;
  std::uint64_t state_;
  bool retired_ = false;
  bool started_ = false;
  bool busy_ = false;  // With an item that is not in the queue any more.
  std::thread thread_;
};

}  // namespace penstock::fake
