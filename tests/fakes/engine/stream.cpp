// SPDX-License-Identifier: Apache-2.0
#include "tests/fakes/engine/stream.hpp"

#include <chrono>
#include <thread>
#include <utility>

#include "tests/fakes/engine/context.hpp"
#include "tests/fakes/engine/settings.hpp"

namespace penstock::fake {

void Completion::finish() {
  const std::scoped_lock lock(mutex_);
  done_ = true;
  changed_.notify_all();
}

bool Completion::is_done() {
  const std::scoped_lock lock(mutex_);
  return done_;
}

void Completion::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return done_; });
}

void Completion::wait_for_us(std::uint32_t bound) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, std::chrono::microseconds(bound), [this] { return done_; });
}

Stream::Stream(Context& context, std::uint64_t serial, bool blocking)
    : context_(context), serial_(serial), blocking_(blocking), state_(serial * 0x9e3779b97f4a7c15U + 1) {}

Point Stream::push(std::function<CudaResult()> work, std::vector<Point> after) {
  auto done = std::make_shared<Completion>();
  const std::scoped_lock lock(mutex_);
  queue_.push_back({std::move(work), std::move(after), done});
  tail_ = done;
  if (!started_) {
    // Streams are never destroyed.
    started_ = true;
    thread_ = std::thread([this] { run(); });
  }
  changed_.notify_all();
  return done;
}

Point Stream::tail() {
  const std::scoped_lock lock(mutex_);
  return tail_;
}

void Stream::retire() {
  bool ends_now = false;
  {
    const std::scoped_lock lock(mutex_);
    if (std::exchange(retired_, true) || !started_) return;
    ends_now = queue_.empty() && !busy_;
    changed_.notify_all();
  }
  // Work that still runs is not waited for, as with a real stream. A thread without work is seen out: one that ends
  // while the process does is what leak checkers stumble over.
  if (ends_now) {
    thread_.join();
  } else {
    thread_.detach();
  }
}

bool Stream::is_retired() {
  const std::scoped_lock lock(mutex_);
  return retired_;
}

// From half of the delay to one and a half.
std::uint32_t Stream::next_delay_us() {
  state_ = state_ * 6364136223846793005U + 1442695040888963407U;
  const std::uint32_t mean = settings().stream_delay_us;
  return mean / 2 + static_cast<std::uint32_t>((state_ >> 33) % (mean + 1));
}

void Stream::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return retired_ || !queue_.empty(); });
    if (queue_.empty()) return;
    Item item = std::move(queue_.front());
    queue_.pop_front();
    busy_ = true;
    lock.unlock();
    for (const Point& point : item.after) point->wait();
    {
      Completion nobody;  // Never finished: what is waited for is the time.
      nobody.wait_for_us(next_delay_us());
    }
    if (!context_.is_dead() && !context_.is_destroyed()) {
      if (const CudaResult code = item.work()) context_.kill(code);
    }
    item.work = nullptr;
    lock.lock();
    busy_ =
        false;  // Before anybody learns of it, so that who waited for the work and destroys the stream joins it.
    item.done->finish();
  }
}

}  // namespace penstock::fake
