// SPDX-License-Identifier: Apache-2.0
#include "dataplane/device/gpu/gpu_frame_work.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include "dataplane/base/check.hpp"

namespace penstock {

void GpuFrameWork::want(std::uint64_t tag) {
  {
    const std::lock_guard lock(mutex_);
    if (stats_.quarantined) {
      answer({.tag = tag, .result = CreateResult::lost, .native = stats_.last_native, .frame = {}});
    } else if (stats_.alive + waiting_.size() >= capacity_) {
      answer({.tag = tag, .result = CreateResult::exhausted, .frame = {}});
    } else {
      waiting_.push_back(tag);
    }
  }
  work_.notify_one();
}

void GpuFrameWork::take(std::size_t most, std::vector<GpuFrameAnswer>& answers) {
  wake_.consume();
  const std::lock_guard lock(mutex_);
  for (; most > 0 && !answers_.empty(); --most) {
    answers.push_back(answers_.front());
    answers_.pop_front();
  }
  if (!answers_.empty()) wake_.signal();
}

void GpuFrameWork::condemn() {
  const std::lock_guard lock(mutex_);
  CHECK(stats_.alive > 0);
  --stats_.alive;
  ++stats_.condemned;
}

void GpuFrameWork::bury(GpuFrame frame) {
  {
    const std::lock_guard lock(mutex_);
    CHECK(stats_.condemned > 0);
    --stats_.condemned;
    ++stats_.dying;
    dying_.push_back(frame);
  }
  work_.notify_one();
}

void GpuFrameWork::quarantine() {
  const std::lock_guard lock(mutex_);
  for_good_ = true;
  if (!stats_.quarantined) give_up("quarantine", 0);
}

GpuFrameStats GpuFrameWork::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

std::string GpuFrameWork::call_under_way() const {
  const std::lock_guard lock(mutex_);
  return in_call_ ? call_ : "";
}

void GpuFrameWork::run() {
  ::pthread_setname_np(::pthread_self(), "penstock-gpu");
  Lock lock(mutex_);
  while (true) {
    // The dead first: what a creation lacks, they may have.
    if (give_back_one(lock)) continue;
    if (stopping_) break;
    if (serve_waiting(lock)) continue;
    if (stats_.quarantined && !for_good_)
      wait_for_probe(lock);
    else
      work_.wait(lock);
  }
  finish(lock);
}

bool GpuFrameWork::give_back_one(Lock& lock) {
  if (dying_.empty()) return false;
  GpuFrame frame = dying_.back();
  dying_.pop_back();
  begin_call(lock, "release");
  const bool gone = give_back(frame);
  end_call(lock);
  --stats_.dying;
  if (!gone) {
    ++stats_.unreturned;
    unreturned_.push_back(frame.handle);
  }
  short_of_something_ = false;
  return true;
}

bool GpuFrameWork::serve_waiting(Lock& lock) {
  if (waiting_.empty() || short_of_something_) return false;
  retry_unreturned(lock);
  // Another thread may have given the GPU up meanwhile, or buried what is to be given back first.
  if (waiting_.empty() || !dying_.empty()) return true;
  if (in_existence() >= capacity_) {
    if (stats_.condemned > 0) return false;
    const std::uint64_t tag = waiting_.front();
    waiting_.pop_front();
    answer({.tag = tag, .result = CreateResult::exhausted, .frame = {}});
    return true;
  }
  ++stats_.in_the_making;
  begin_call(lock, "create");
  const Made made = make();
  end_call(lock);
  --stats_.in_the_making;
  settle(made);
  return true;
}

void GpuFrameWork::wait_for_probe(Lock& lock) {
  const bool interrupted =
      work_.wait_for(lock, probe_wait_, [this] { return stopping_ || for_good_ || !dying_.empty(); });
  if (!interrupted) probe(lock);
}

// Whether the driver makes, exports and releases a frame again. That it has no room now is an answer of a driver that works.
void GpuFrameWork::probe(Lock& lock) {
  for (std::size_t left = unreturned_.size(); left > 0; --left) retry_unreturned(lock);
  if (in_existence() >= capacity_) return;  // The dead keep their room until they are released.
  ++stats_.in_the_making;
  begin_call(lock, "create");
  Made made = make();
  bool works = made.result == CreateResult::exhausted || made.result == CreateResult::fd_limit;
  if (made.result == CreateResult::created) works = give_back(made.frame);
  end_call(lock);
  --stats_.in_the_making;
  if (made.result == CreateResult::created && !works) {
    ++stats_.unreturned;
    unreturned_.push_back(made.frame.handle);
  }
  if (!works) {
    note(made.code);
    note_a_loss(made.code);
    probe_wait_ = std::min(2 * probe_wait_, options_.probe_after_most);
    return;
  }
  stats_.quarantined = false;
  lost_ = false;
  ++stats_.recoveries_total;
  refusals_ = 0;
  wake_.signal();
}

void GpuFrameWork::settle(const Made& made) {
  if (made.frame.fd < 0 && made.frame.handle != MemoryHandle{}) {
    // It could not be exported, nor released.
    ++stats_.unreturned;
    unreturned_.push_back(made.frame.handle);
  }
  if (!made.code.ok() && classify(made.code) != DriverClass::pressure) note(made.code);
  if (waiting_.empty()) {
    // Its creation was answered when the GPU was given up, or the maker stops.
    note_a_loss(made.code);
    if (made.result != CreateResult::created) return;
    ++stats_.dying;
    dying_.push_back(made.frame);
    return;
  }
  if (made.result != CreateResult::created && stats_.condemned + stats_.dying > 0) {
    short_of_something_ = true;
    return;
  }
  if (made.result == CreateResult::lost) {
    ++refusals_;
    // The tag stays at the head, and is answered with all others.
    note_a_loss(made.code);
    if (lost_ || refusals_ >= options_.refusals_max) {
      return give_up(made.code.call, made.code.native);
    }
  } else {
    refusals_ = 0;
  }
  const std::uint64_t tag = waiting_.front();
  waiting_.pop_front();
  answer({.tag = tag, .result = made.result, .native = made.code.native, .frame = made.frame});
}

void GpuFrameWork::retry_unreturned(Lock& lock) {
  if (unreturned_.empty()) return;
  GpuFrame frame{.handle = unreturned_.back(), .fd = -1};
  begin_call(lock, "release");
  const bool gone = give_back(frame);
  end_call(lock);
  if (!gone) return;
  unreturned_.erase(std::ranges::find(unreturned_, frame.handle));
  --stats_.unreturned;
}

void GpuFrameWork::finish(Lock& lock) {
  for (std::size_t left = unreturned_.size(); left > 0; --left) retry_unreturned(lock);
  finished_ = true;
  watch_.notify_all();
  done_.notify_all();
}

GpuFrameWork::Made GpuFrameWork::make() {
  if (headroom_->headroom_bytes() < options_.frame_bytes) {
    return {.result = CreateResult::no_headroom, .code = {}, .frame = {}};
  }
  GpuFrame frame;
  const DriverCode created = driver_->create(options_.frame_bytes, frame.handle);
  if (!created.ok()) return refused(created);
  UniqueFd exported;
  const DriverCode code = driver_->export_fd(frame.handle, exported);
  if (!code.ok()) {
    Made failed = refused(code);
    if (!driver_->release(frame.handle).ok()) failed.frame = frame;
    return failed;
  }
  frame.fd = exported.release();
  headroom_->account(static_cast<std::int64_t>(options_.frame_bytes));
  return {.result = CreateResult::created, .code = {}, .frame = frame};
}

GpuFrameWork::Made GpuFrameWork::refused(DriverCode code) {
  Made failed{.result = CreateResult::lost, .code = code, .frame = {}};
  // Drivers have no word of their own for it: CUDA says "not permitted" or less, HIP "out of memory".
  if (lacks_descriptors()) {
    failed.result = CreateResult::fd_limit;
  } else if (classify(code) == DriverClass::pressure) {
    failed.result = CreateResult::exhausted;
  }
  return failed;
}

bool GpuFrameWork::give_back(GpuFrame& frame) {
  if (frame.fd >= 0) {
    ::close(std::exchange(frame.fd, -1));
    headroom_->account(-static_cast<std::int64_t>(options_.frame_bytes));
  }
  return driver_->release(frame.handle).ok();
}

// Of two: a driver that holds one for the allocation too, be it for a moment, has closed again what it got.
bool GpuFrameWork::lacks_descriptors() const {
  std::array<UniqueFd, 2> probes;
  for (UniqueFd& probe : probes) {
    probe = UniqueFd(::fcntl(wake_.fd(), F_DUPFD_CLOEXEC, 0));
    if (!probe) return errno == EMFILE || errno == ENFILE;
  }
  return false;
}

void GpuFrameWork::begin_call(Lock& lock, const char* what) {
  in_call_ = true;
  ++call_number_;
  call_ = what;
  if (watchdog_idle_) watch_.notify_one();
  lock.unlock();
}

void GpuFrameWork::end_call(Lock& lock) {
  lock.lock();
  in_call_ = false;
  hung_ = false;
}

void GpuFrameWork::watch() {
  ::pthread_setname_np(::pthread_self(), "penstock-watch");
  Lock lock(mutex_);
  while (!finished_ && !left_behind_) {
    if (!in_call_) {
      watchdog_idle_ = true;
      watch_.wait(lock);
      watchdog_idle_ = false;
      continue;
    }
    const std::uint64_t call = call_number_;
    if (watch_.wait_for(lock, options_.call_limit) != std::cv_status::timeout) continue;
    if (!in_call_ || call != call_number_) continue;
    hung_ = true;
    if (!stats_.quarantined) give_up(call_, 0);
    done_.notify_all();
  }
}

bool GpuFrameWork::stop() {
  Lock lock(mutex_);
  for (const GpuFrameAnswer& untaken : answers_) {
    if (untaken.result != CreateResult::created) continue;
    --stats_.alive;
    ++stats_.dying;
    dying_.push_back(untaken.frame);
  }
  answers_.clear();
  waiting_.clear();
  stopping_ = true;
  work_.notify_one();
  done_.wait(lock, [this] { return finished_ || hung_; });
  left_behind_ = !finished_;
  watch_.notify_all();
  return finished_;
}

void GpuFrameWork::give_up(const char* call, std::int32_t native) {
  stats_.quarantined = true;
  probe_wait_ = options_.probe_after;
  wake_.signal();
  stats_.last_call = call;
  stats_.last_native = native;
  for (const std::uint64_t tag : std::exchange(waiting_, {})) {
    answer({.tag = tag, .result = CreateResult::lost, .native = native, .frame = {}});
  }
}

void GpuFrameWork::answer(GpuFrameAnswer answer) {
  switch (answer.result) {
    case CreateResult::created:
      ++stats_.alive;
      ++stats_.made_total;
      break;
    case CreateResult::exhausted: ++stats_.exhausted_total; break;
    case CreateResult::no_headroom: ++stats_.no_headroom_total; break;
    case CreateResult::fd_limit: ++stats_.fd_limit_total; break;
    case CreateResult::lost: ++stats_.refused_total; break;
  }
  CHECK(in_existence() <= capacity_);
  if (answers_.empty()) wake_.signal();
  answers_.push_back(answer);
}

std::uint64_t GpuFrameWork::in_existence() const {
  return stats_.alive + stats_.in_the_making + stats_.condemned + stats_.dying + stats_.unreturned;
}

void GpuFrameWork::note(DriverCode code) {
  stats_.last_native = code.native;
  stats_.last_call = code.call;
}

// One loss until the GPU works again, however many calls answer that it is gone.
void GpuFrameWork::note_a_loss(DriverCode code) {
  if (code.ok() || classify(code) != DriverClass::device_dead || std::exchange(lost_, true)) return;
  ++stats_.contents_losses_total;
  wake_.signal();
}

}  // namespace penstock
