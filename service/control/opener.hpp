// SPDX-License-Identifier: Apache-2.0
// Opener: threads for calls on other people's files that may never return (FUSE, NFS): fstat, statx, reading a header.
//
// Each job is answered exactly once, on the executor given, with its result or, when the deadline passes first, with
// io_error. A thread that hangs is given up and replaced, up to `threads_max`; beyond that jobs answer busy.
// Called on the executor's thread. Jobs own everything that they touch, since they may outlive this object.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <boost/asio/any_io_executor.hpp>

#include "dataplane/base/failure.hpp"

namespace penstock {

class Opener {
 public:
  struct Options {
    std::size_t threads = 2;
    std::size_t threads_max = 16;
    std::chrono::nanoseconds deadline = std::chrono::seconds(10);
  };

  Opener(boost::asio::any_io_executor executor, const Options& options);
  ~Opener();  // Does not wait for hanging jobs.
  Opener(const Opener&) = delete;
  Opener& operator=(const Opener&) = delete;

  template <class T>
  void run(std::string subject, std::function<Outcome<T>()> job, std::function<void(Outcome<T>)> answer) {
    auto result = std::make_shared<Outcome<T>>(fail(FailureKind::cancelled, "not run"));
    post(
        std::move(subject), [result, job = std::move(job)] { *result = job(); },
        [result, answer = std::move(answer)](const Failure* failure) {
          if (failure != nullptr)
            answer(tl::unexpected<Failure>(*failure));
          else
            answer(std::move(*result));
        });
  }

  // Subjects of the jobs that run now; those past their deadline are what a stop would hang on.
  std::vector<std::string> running() const;

 private:
  struct Job;
  struct Shared;
  void post(std::string subject, std::function<void()> work, std::function<void(const Failure*)> answer);
  void arm(const std::shared_ptr<Job>& job);

  std::shared_ptr<Shared> shared_;
};

}  // namespace penstock
