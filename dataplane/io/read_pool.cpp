// SPDX-License-Identifier: Apache-2.0
#include "dataplane/io/read_pool.hpp"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "dataplane/base/check.hpp"

namespace penstock {
namespace {

ReadDone run_job(const ReadPool::Job& job) {
  const ssize_t count =
      ::pread(job.fd, job.destination, job.extent.length, static_cast<off_t>(job.extent.offset));
  return ReadDone{.tag = job.tag, .result = static_cast<std::int32_t>(count >= 0 ? count : -errno)};
}

}  // namespace

Result<std::unique_ptr<ReadPool>> ReadPool::start(std::uint32_t threads, std::uint32_t jobs_max) {
  CHECK(threads > 0 && jobs_max > 0);
  EventFd event = TRY(EventFd::create());
  auto pool = std::unique_ptr<ReadPool>(new ReadPool(std::move(event), jobs_max));
  if (!pool->spawn(threads)) return Error{Errc::exhausted, EAGAIN, "pthread_create"};
  return pool;
}

ReadPool::ReadPool(EventFd event, std::uint32_t jobs_max)
    : event_(std::move(event)), jobs_max_(jobs_max), waiting_(jobs_max), done_(jobs_max) {}

// Signals belong to the thread that waits for them, so the readers are born with all of them blocked.
bool ReadPool::spawn(std::uint32_t threads) {
  sigset_t all, before;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  threads_.reserve(threads);
  bool started = true;
  for (std::uint32_t index = 0; index < threads && started; ++index) {
    try {
      threads_.emplace_back(&ReadPool::run, this);
    } catch (const std::system_error&) {
      started = false;  // The standard library's only way to say EAGAIN.
    }
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return started;
}

ReadPool::~ReadPool() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  work_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ReadPool::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    work_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
    if (stopping_) return;
    const Job job = waiting_.pop();
    lock.unlock();
    const ReadDone done = run_job(job);
    lock.lock();
    done_.push(done);
    if (ready_.fetch_add(1, std::memory_order_release) == 0) event_.signal();
  }
}

void ReadPool::push(std::span<const Job> jobs) {
  CHECK(in_flight_ + jobs.size() <= jobs_max_);
  {
    const std::lock_guard lock(mutex_);
    for (const Job& job : jobs) waiting_.push(job);
  }
  in_flight_ += jobs.size();
  if (jobs.size() == 1) {
    work_.notify_one();
  } else {
    work_.notify_all();
  }
}

std::size_t ReadPool::collect(std::span<ReadDone> done) {
  if (in_flight_ == 0) return 0;
  const std::lock_guard lock(mutex_);
  std::size_t count = 0;
  while (count < done.size() && !done_.empty()) done[count++] = done_.pop();
  ready_.fetch_sub(count, std::memory_order_relaxed);
  in_flight_ -= count;
  return count;
}

void ReadPool::cancel_waiting() {
  const std::lock_guard lock(mutex_);
  std::size_t count = 0;
  for (; !waiting_.empty(); ++count) done_.push(ReadDone{.tag = waiting_.pop().tag, .result = -ECANCELED});
  if (count > 0 && ready_.fetch_add(count, std::memory_order_release) == 0) event_.signal();
}

}  // namespace penstock
