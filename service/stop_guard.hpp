// SPDX-License-Identifier: Apache-2.0
// StopGuard: ends the process when taking it apart takes too long, and says what it waited for: a driver's call can't be
// taken back, nor the thread that is in it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace penstock {

// A device's driver call that is under way, "" when none is. Asked from the guard's thread, also when the device is gone.
struct WatchedDriver {
  std::string device;
  std::function<std::string()> call;
};

// Logs a line for each call under way; whether there was one.
bool log_hung_calls(const std::vector<WatchedDriver>& drivers);

class StopGuard {
 public:
  // At `deadline` the process ends with `exit_code`, unless the guard has gone by then.
  StopGuard(std::chrono::steady_clock::time_point deadline, std::vector<WatchedDriver> drivers,
            int exit_code);
  ~StopGuard();
  StopGuard(const StopGuard&) = delete;
  StopGuard& operator=(const StopGuard&) = delete;

 private:
  void watch(std::chrono::steady_clock::time_point deadline, int exit_code);

  const std::vector<WatchedDriver> drivers_;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool done_ = false;
  std::thread thread_;  // Last: it uses all of the above.
};

}  // namespace penstock
