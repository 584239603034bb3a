// SPDX-License-Identifier: Apache-2.0
#include "dataplane/device/host/frame_maker.hpp"

#include <algorithm>
#include <cerrno>
#include <utility>

#include <pthread.h>

#include "dataplane/base/check.hpp"

namespace penstock {
namespace {

CreateResult classify(std::int32_t native) {
  switch (native) {
    case EMFILE:
    case ENFILE: return CreateResult::fd_limit;
    case EBUSY: return CreateResult::no_headroom;  // The cgroup refused the charge of a huge page.
    default: return CreateResult::exhausted;
  }
}

}  // namespace

FrameMaker::FrameMaker(const HostFrameOptions& options, HeadroomSource& headroom, EventFd wake)
    : options_(options),
      capacity_(std::max<std::uint64_t>(options.capacity_bytes / options.frame_bytes, 1)),
      headroom_(headroom),
      wake_(std::move(wake)),
      target_(std::min<std::uint64_t>(options.ready_pool_frames, capacity_)) {
  // Giving memory back may not need any.
  dying_.reserve(capacity_);
  thread_ = std::thread([this] { run(); });
}

FrameMaker::~FrameMaker() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  work_.notify_one();
  thread_.join();
}

void FrameMaker::want(std::uint64_t tag) {
  {
    const std::lock_guard lock(mutex_);
    ahead_refused_ = false;
    if (stats_.alive + waiting_.size() >= capacity_) {
      answer(FrameAnswer{.tag = tag, .result = CreateResult::exhausted});
    } else if (!ready_.empty()) {
      HostFrame frame = std::move(ready_.back());
      ready_.pop_back();
      answer(FrameAnswer{.tag = tag, .frame = std::move(frame)});
    } else {
      ++stats_.waited_total;
      waiting_.push_back(tag);
      if (options_.ahead && !std::exchange(grown_, true)) {
        target_ = std::min<std::uint64_t>(std::max<std::size_t>(target_, 1) * 2, capacity_);
      }
    }
  }
  work_.notify_one();
}

void FrameMaker::take(std::size_t most, std::vector<FrameAnswer>& answers) {
  wake_.consume();
  const std::lock_guard lock(mutex_);
  for (; most > 0 && !answers_.empty(); --most) {
    answers.push_back(std::move(answers_.front()));
    answers_.pop_front();
  }
  if (!answers_.empty()) wake_.signal();
}

void FrameMaker::bury(HostFrame frame) {
  {
    const std::lock_guard lock(mutex_);
    CHECK(stats_.alive > 0);
    --stats_.alive;
    ++stats_.dying;
    ahead_refused_ = false;
    dying_.push_back(std::move(frame));
  }
  work_.notify_one();
}

void FrameMaker::set_making_ahead(bool allowed) {
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(ahead_allowed_, allowed) == allowed) return;
    ahead_refused_ = false;
    if (!allowed) bury_ready(0);
  }
  work_.notify_one();
}

bool FrameMaker::wait_until_at_most(std::uint64_t frames, Nanoseconds limit) {
  Lock lock(mutex_);
  return given_back_.wait_for(lock, limit, [this, frames] { return in_existence() <= frames; });
}

HostFrameStats FrameMaker::stats() const {
  const std::lock_guard lock(mutex_);
  HostFrameStats now = stats_;
  now.ready = ready_.size();
  return now;
}

void FrameMaker::run() {
  ::pthread_setname_np(::pthread_self(), "penstock-frames");
  Lock lock(mutex_);
  while (!stopping_) {
    // A creation that waits goes before giving memory back, unless it needs just that.
    if (serve_waiting(lock) || bury_one(lock) || make_ahead(lock)) continue;
    sleep(lock);
  }
}

bool FrameMaker::serve_waiting(Lock& lock) {
  if (waiting_.empty() || in_existence() >= capacity_) return false;
  stats_.in_the_making = 1;
  lock.unlock();
  FrameAnswer made = make(0);
  lock.lock();
  stats_.in_the_making = 0;
  // Whatever is short, memory or descriptors: the dying have some.
  if (made.result != CreateResult::created && !dying_.empty()) return false;
  made.tag = waiting_.front();
  waiting_.pop_front();
  answer(std::move(made));
  return true;
}

bool FrameMaker::bury_one(Lock& lock) {
  if (dying_.empty()) return false;
  HostFrame frame = std::move(dying_.back());
  dying_.pop_back();
  lock.unlock();
  frame = HostFrame();
  headroom_.account(-static_cast<std::int64_t>(options_.frame_bytes));
  lock.lock();
  --stats_.dying;
  given_back_.notify_all();
  return true;
}

bool FrameMaker::make_ahead(Lock& lock) {
  if (ready_.size() >= target_) grown_ = false;
  if (!ahead_allowed_ || ahead_refused_ || ready_.size() >= target_ || in_existence() >= capacity_)
    return false;
  stats_.in_the_making = 1;
  // Idle frames take at most half of what is left: somebody else in the cgroup may need it more.
  const std::uint64_t spare_frames = ready_.size() + 1;
  lock.unlock();
  FrameAnswer made = make(spare_frames);
  lock.lock();
  stats_.in_the_making = 0;
  if (made.result != CreateResult::created) {
    ahead_refused_ = true;
    return true;
  }
  if (waiting_.empty()) {
    ready_.push_back(std::move(made.frame));
    if (!ahead_allowed_) bury_ready(0);  // Forbidden meanwhile.
  } else {
    made.tag = waiting_.front();
    waiting_.pop_front();
    answer(std::move(made));
  }
  return true;
}

void FrameMaker::sleep(Lock& lock) {
  if (target_ <= options_.ready_pool_frames) {
    work_.wait(lock);
    return;
  }
  if (work_.wait_for(lock, options_.pool_decay_interval) == std::cv_status::timeout) shrink_pool();
}

void FrameMaker::shrink_pool() {
  target_ = std::max(options_.ready_pool_frames, target_ / 2);
  bury_ready(target_);
}

// The dying were reserved for as many as there can be.
void FrameMaker::bury_ready(std::size_t left) {
  while (ready_.size() > left) {
    ++stats_.dying;
    dying_.push_back(std::move(ready_.back()));
    ready_.pop_back();
  }
}

FrameAnswer FrameMaker::make(std::uint64_t spare_frames) {
  const std::uint64_t needed = (1 + spare_frames) * options_.frame_bytes + options_.reserve_bytes;
  if (headroom_.headroom_bytes() < needed) return FrameAnswer{.result = CreateResult::no_headroom};
  Result<HostFrame> frame = HostFrame::make(options_.frame_bytes, options_.pages);
  if (!frame) {
    const std::int32_t native = frame.error().native;
    return FrameAnswer{.result = classify(native), .native = native};
  }
  headroom_.account(static_cast<std::int64_t>(options_.frame_bytes));
  count_made(frame->pages(), !options_.locked || frame->lock());
  return FrameAnswer{.frame = std::move(*frame)};
}

void FrameMaker::count_made(HostPages pages, bool locked) {
  const std::lock_guard lock(mutex_);
  if (!locked) ++stats_.unlocked_total;
  ++stats_.made_total;
  if (pages == HostPages::small) ++stats_.made_of_small_pages_total;
}

void FrameMaker::answer(FrameAnswer answer) {
  switch (answer.result) {
    case CreateResult::created: ++stats_.alive; break;
    case CreateResult::exhausted: ++stats_.exhausted_total; break;
    case CreateResult::no_headroom: ++stats_.no_headroom_total; break;
    case CreateResult::fd_limit: ++stats_.fd_limit_total; break;
    case CreateResult::lost: CHECK(false);
  }
  CHECK(in_existence() <= capacity_);
  if (answers_.empty()) wake_.signal();
  answers_.push_back(std::move(answer));
}

std::uint64_t FrameMaker::in_existence() const {
  return stats_.alive + ready_.size() + stats_.in_the_making + stats_.dying;
}

}  // namespace penstock
