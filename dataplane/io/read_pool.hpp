// SPDX-License-Identifier: Apache-2.0
// ReadPool: threads that call pread, for reads that would block or copy on the thread that asks for them.
//
// Thread rule: one thread pushes and collects; the pool's own threads only run preads. A job's memory is
// written until its ReadDone was collected, or the pool destroyed. The destructor drops what has not started
// and waits for the rest.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "dataplane/base/event_fd.hpp"
#include "dataplane/base/result.hpp"
#include "dataplane/io/file_reader.hpp"

namespace penstock {

class ReadPool {
 public:
  struct Job {
    int fd = -1;
    Extent extent;
    std::byte* destination = nullptr;
    std::uint64_t tag = 0;
  };

  // Starts the threads, with every signal blocked. Errc::exhausted when the system has no room for them.
  static Result<std::unique_ptr<ReadPool>> start(std::uint32_t threads, std::uint32_t jobs_max);
  ~ReadPool();
  ReadPool(const ReadPool&) = delete;
  ReadPool& operator=(const ReadPool&) = delete;

  // REQUIRES: in_flight() + jobs.size() <= jobs_max.
  void push(std::span<const Job> jobs);
  // Fills `done` with what has finished and returns how many; never blocks. Leaves event() as it is.
  std::size_t collect(std::span<ReadDone> done);
  // Answers every job that has not started with -ECANCELED.
  void cancel_waiting();

  std::size_t in_flight() const { return in_flight_; }  // Pushed and not collected.
  bool can_collect() const { return ready_.load(std::memory_order_acquire) > 0; }
  // Signalled whenever can_collect() becomes true. Its owner may let others signal it, and consumes it.
  const EventFd& event() const { return event_; }

 private:
  ReadPool(EventFd event, std::uint32_t jobs_max);
  bool spawn(std::uint32_t threads);
  void run();

  // Fixed capacity, first in, first out.
  template <class T>
  class Ring {
   public:
    explicit Ring(std::uint32_t capacity) : items_(capacity) {}
    bool empty() const { return size_ == 0; }
    void push(const T& item) { items_[(head_ + size_++) % items_.size()] = item; }
    T pop() {
      const T item = items_[head_];
      head_ = (head_ + 1) % items_.size();
      --size_;
      return item;
    }

   private:
    std::vector<T> items_;
    std::size_t head_ = 0;
    std::size_t size_ = 0;
  };

  EventFd event_;
  const std::uint32_t jobs_max_;
  std::size_t in_flight_ = 0;  // Of the owning thread alone.
  std::atomic<std::size_t> ready_{0};

  std::mutex mutex_;  // Guards what follows.
  std::condition_variable work_;
  Ring<Job> waiting_;
  Ring<ReadDone> done_;
  bool stopping_ = false;

  std::vector<std::thread> threads_;
};

}  // namespace penstock
