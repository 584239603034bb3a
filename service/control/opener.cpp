// SPDX-License-Identifier: Apache-2.0
#include "service/control/opener.hpp"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <set>
#include <thread>

#include <fmt/format.h>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

namespace penstock {

struct Opener::Job {
  Job(std::string about, std::function<void()> call, std::function<void(const Failure*)> reply)
      : subject(std::move(about)), work(std::move(call)), answer(std::move(reply)) {}

  std::string subject;
  std::function<void()> work;                        // Runs on a worker.
  std::function<void(const Failure*)> answer;        // Executor only; empty once given.
  std::unique_ptr<boost::asio::steady_timer> timer;  // Executor only; gone before the executor is.
  bool given_up = false;                             // Guarded by Shared::mutex.
};

// Outlives the Opener as long as a worker hangs.
struct Opener::Shared {
  explicit Shared(boost::asio::any_io_executor e, const Options& o) : executor(std::move(e)), options(o) {}

  boost::asio::any_io_executor executor;
  Options options;
  std::mutex mutex;
  std::condition_variable wake;
  std::deque<std::shared_ptr<Job>> queue;
  std::set<std::shared_ptr<Job>> running;
  std::size_t workers = 0;  // Threads that are alive, hanging ones included.
  std::size_t hanging = 0;
  bool stopping = false;

  static void finish(const std::shared_ptr<Job>& job, const Failure* failure) {
    if (!job->answer) return;
    job->timer.reset();
    const auto answer = std::exchange(job->answer, nullptr);
    answer(failure);
  }

  static void serve(const std::shared_ptr<Shared>& self) {
    std::unique_lock lock(self->mutex);
    for (;;) {
      self->wake.wait(lock, [&] { return self->stopping || !self->queue.empty(); });
      if (self->stopping) break;
      const auto job = self->queue.front();
      self->queue.pop_front();
      if (job->given_up) continue;
      self->running.insert(job);
      lock.unlock();
      job->work();
      lock.lock();
      self->running.erase(job);
      const bool replaced = job->given_up;
      if (replaced) --self->hanging;
      if (!self->stopping) boost::asio::post(self->executor, [job] { finish(job, nullptr); });
      // A replacement took this thread's place while it hung.
      if (replaced && self->workers - self->hanging > self->options.threads) break;
    }
    --self->workers;
  }

  // REQUIRES: the mutex is held.
  void add_worker(const std::shared_ptr<Shared>& self) {
    ++workers;
    std::thread([self] { serve(self); }).detach();
  }
};

Opener::Opener(boost::asio::any_io_executor executor, const Options& options)
    : shared_(std::make_shared<Shared>(std::move(executor), options)) {}

Opener::~Opener() {
  const std::lock_guard lock(shared_->mutex);
  shared_->stopping = true;
  for (const auto& job : shared_->queue) job->timer.reset();
  for (const auto& job : shared_->running) job->timer.reset();
  shared_->wake.notify_all();
}

void Opener::post(std::string subject, std::function<void()> work,
                  std::function<void(const Failure*)> answer) {
  auto job = std::make_shared<Job>(std::move(subject), std::move(work), std::move(answer));
  bool accepted = false;
  {
    const std::lock_guard lock(shared_->mutex);
    const std::size_t able = shared_->workers - shared_->hanging;
    if (able < shared_->options.threads && shared_->workers < shared_->options.threads_max)
      shared_->add_worker(shared_);
    accepted = shared_->workers > shared_->hanging;
    if (accepted) shared_->queue.push_back(job);
  }
  if (!accepted) {
    boost::asio::post(shared_->executor, [job] {
      const Failure failure{FailureKind::busy, fmt::format("{}: too many files do not answer", job->subject),
                            "a network or FUSE filesystem hangs; see the log for its paths"};
      Shared::finish(job, &failure);
    });
    return;
  }
  shared_->wake.notify_one();
  arm(job);
}

void Opener::arm(const std::shared_ptr<Job>& job) {
  job->timer = std::make_unique<boost::asio::steady_timer>(shared_->executor, shared_->options.deadline);
  job->timer->async_wait([job, shared = shared_](const boost::system::error_code& error) {
    if (error || !job->answer) return;
    {
      const std::lock_guard lock(shared->mutex);
      job->given_up = true;
      if (shared->running.contains(job)) ++shared->hanging;
    }
    const auto seconds =
        std::chrono::duration_cast<std::chrono::milliseconds>(shared->options.deadline).count();
    const Failure failure{
        FailureKind::io_error,
        fmt::format("{}: the filesystem did not answer within {} ms", job->subject, seconds),
        "is it a FUSE or network mount whose server is gone?"};
    Shared::finish(job, &failure);
  });
}

std::vector<std::string> Opener::running() const {
  const std::lock_guard lock(shared_->mutex);
  std::vector<std::string> subjects;
  for (const auto& job : shared_->running) subjects.push_back(job->subject);
  return subjects;
}

}  // namespace penstock
