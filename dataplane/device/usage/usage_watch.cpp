// SPDX-License-Identifier: Apache-2.0
#include "dataplane/device/usage/usage_watch.hpp"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include <pthread.h>

namespace penstock {
namespace {

// Longer than any call that does not hang.
constexpr auto farewell = std::chrono::seconds(1);

}  // namespace

struct UsageWatch::Shared {
  Shared(std::unique_ptr<UsageSource> given, const UsageTimes& given_times)
      : source(std::move(given)), times(given_times) {}

  const std::unique_ptr<UsageSource> source;  // The thread's.
  const UsageTimes times;

  std::mutex mutex;
  std::condition_variable changed;
  // Guarded by mutex.
  bool stopping = false;
  bool ended = false;
  bool wanted = false;
  std::optional<Nanoseconds> call_began;  // The heartbeat: set while a call is under way.
  std::optional<Nanoseconds> read_at;     // When the call that brought `devices` began.
  std::optional<Error> error;             // Of the newest answer.
  std::uint64_t readings = 0;
  std::vector<DeviceUsage> devices;
};

std::string_view usage_state_name(UsageState state) {
  switch (state) {
    case UsageState::starting: return "starting";
    case UsageState::absent: return "absent";
    case UsageState::failing: return "failing";
    case UsageState::current: return "current";
    case UsageState::stalled: break;
  }
  return "stalled";
}

UsageWatch::UsageWatch(std::unique_ptr<UsageSource> source, const UsageTimes& times)
    : name_(source->name()), shared_(std::make_shared<Shared>(std::move(source), times)) {
  std::thread([shared = shared_] { run(shared); }).detach();
}

UsageWatch::~UsageWatch() {
  std::unique_lock lock(shared_->mutex);
  shared_->stopping = true;
  shared_->changed.notify_all();
  shared_->changed.wait_for(lock, farewell, [this] { return shared_->ended; });
}

void UsageWatch::run(const std::shared_ptr<Shared>& shared) {
  ::pthread_setname_np(::pthread_self(), "penstock-usage");
  std::unique_lock lock(shared->mutex);
  while (!shared->stopping) {
    const Nanoseconds began = monotonic_now();
    shared->call_began = began;
    shared->wanted = false;
    lock.unlock();
    Result<std::vector<DeviceUsage>> answer = shared->source->read();
    lock.lock();
    shared->call_began.reset();
    ++shared->readings;
    shared->error.reset();
    if (answer) {
      shared->devices = std::move(*answer);
      shared->read_at = began;
    } else {
      shared->error = answer.error();
    }
    const bool is_absent = shared->error && shared->error->code == Errc::not_found;
    shared->changed.notify_all();
    shared->changed.wait_for(lock, is_absent ? shared->times.retry : shared->times.interval,
                             [&] { return shared->stopping || shared->wanted; });
  }
  shared->ended = true;
  shared->changed.notify_all();
}

UsageSnapshot UsageWatch::newest(Nanoseconds now) const {
  const std::lock_guard lock(shared_->mutex);
  UsageSnapshot snapshot;
  snapshot.readings = shared_->readings;
  snapshot.devices = shared_->devices;
  if (shared_->read_at) snapshot.age = std::max(now - *shared_->read_at, Nanoseconds{0});
  if (shared_->call_began) snapshot.waiting = std::max(now - *shared_->call_began, Nanoseconds{0});
  if (snapshot.waiting > shared_->times.stall) {
    snapshot.state = UsageState::stalled;
  } else if (shared_->error) {
    snapshot.state = shared_->error->code == Errc::not_found ? UsageState::absent : UsageState::failing;
    snapshot.error = *shared_->error;
  } else if (shared_->read_at) {
    snapshot.state = UsageState::current;
  }
  return snapshot;
}

void UsageWatch::read_soon() {
  const std::lock_guard lock(shared_->mutex);
  shared_->wanted = true;
  shared_->changed.notify_all();
}

}  // namespace penstock
