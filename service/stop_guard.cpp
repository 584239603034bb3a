// SPDX-License-Identifier: Apache-2.0
#include "service/stop_guard.hpp"

#include <utility>

#include <spdlog/spdlog.h>

#include "service/hung_files.hpp"

namespace penstock {

bool log_hung_calls(const std::vector<WatchedDriver>& drivers) {
  bool hung = false;
  for (const WatchedDriver& driver : drivers) {
    const std::string call = driver.call();
    if (call.empty()) continue;
    spdlog::error("device {}: its driver has not returned from {}: it is left behind", driver.device, call);
    hung = true;
  }
  return hung;
}

StopGuard::StopGuard(std::chrono::steady_clock::time_point deadline, std::vector<WatchedDriver> drivers,
                     int exit_code)
    : drivers_(std::move(drivers)), thread_([this, deadline, exit_code] { watch(deadline, exit_code); }) {}

StopGuard::~StopGuard() {
  {
    const std::lock_guard lock(mutex_);
    done_ = true;
  }
  ended_.notify_one();
  thread_.join();
}

void StopGuard::watch(std::chrono::steady_clock::time_point deadline, int exit_code) {
  std::unique_lock lock(mutex_);
  if (ended_.wait_until(lock, deadline, [this] { return done_; })) return;
  log_hung_calls(drivers_);
  spdlog::error("the stop took too long and was cut short");
  exit_past_hung_files(exit_code);
}

}  // namespace penstock
