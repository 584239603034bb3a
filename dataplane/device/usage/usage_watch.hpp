// SPDX-License-Identifier: Apache-2.0
// UsageWatch: reads one source again and again on a thread of its own, and tells the newest figures with their age.
//
// 1. A call that hangs stops nothing but this thread: newest() and the destructor never wait for it. Figures age, and
//    are reported as stalled.
// 2. What the thread uses it owns, so that it can be left behind for good.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "dataplane/base/clock.hpp"
#include "dataplane/device/usage/device_usage.hpp"

namespace penstock {

enum class UsageState : std::uint8_t {
  starting,  // No answer yet; the first call is under way.
  absent,    // Not on this machine: neither library nor device. Asked again from time to time.
  failing,   // The newest answer was an error; figures, if any, are older.
  current,
  stalled,  // A call has not returned for `stall`.
};
std::string_view usage_state_name(UsageState state);

struct UsageSnapshot {
  UsageState state = UsageState::starting;
  Nanoseconds age = never;  // Of the devices' figures: since that reading began. `never` without a reading.
  Nanoseconds waiting{0};   // For how long a call has been under way; 0 when none is.
  std::uint64_t readings = 0;    // Since the start: two equal numbers are the same figures.
  Error error{Errc::not_found};  // With absent and failing.
  std::vector<DeviceUsage> devices;
};

struct UsageTimes {
  Nanoseconds interval = std::chrono::seconds(2);
  Nanoseconds retry = std::chrono::seconds(30);  // After absent.
  Nanoseconds stall = std::chrono::seconds(5);
};

class UsageWatch {
 public:
  UsageWatch(std::unique_ptr<UsageSource> source, const UsageTimes& times);
  UsageWatch(const UsageWatch&) = delete;
  UsageWatch& operator=(const UsageWatch&) = delete;
  // Waits for the thread as long as it is between two calls; one that is inside a call is left behind after a moment.
  ~UsageWatch();

  // Any thread. `now` of the clock of monotonic_now().
  UsageSnapshot newest(Nanoseconds now) const;
  // Any thread: reads as soon as possible, because somebody is about to allocate. The answer is there when `readings`
  // has grown by one, or two if a call was under way.
  void read_soon();
  std::string_view name() const { return name_; }

 private:
  struct Shared;
  static void run(const std::shared_ptr<Shared>& shared);

  const std::string_view name_;
  const std::shared_ptr<Shared> shared_;
};

}  // namespace penstock
