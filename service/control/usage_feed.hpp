// SPDX-License-Identifier: Apache-2.0
// UsageFeed: takes the newest readings of what others use of the GPUs, and feeds them to admission, which feeds the
// pagers' budgets; leaves them in ServiceState for status and exporters. Service thread only; never waits for a driver.
//
// Figures of a source that does not answer any more are not known: the state and the age say why. What is counted then is
// the greater of what was last known and of what the writer sees of the device.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "dataplane/base/lifetime.hpp"
#include "dataplane/device/gpu/gpu_identity.hpp"
#include "dataplane/device/usage/usage_report.hpp"
#include "service/control/service_state.hpp"
#include "service/policy/foreign_estimate.hpp"

namespace penstock {

// What the writer's context says of the device's free memory, and our frames meanwhile.
struct WriterReading {
  std::uint64_t number = 0;  // Grows with each reading.
  std::uint64_t free_bytes = 0;
  FrameBytes frames;
};

struct UsageFeedTimes {
  Nanoseconds interval = std::chrono::milliseconds(250);
  Nanoseconds fresh = std::chrono::seconds(6);  // Older figures are not known any more.
};

class UsageFeed {
 public:
  struct Device {
    std::size_t position = 0;  // In ServiceState::devices.
    GpuIdentity gpu;
    std::uint64_t total_bytes = 0;  // As its driver says.
    bool shares_host_memory = false;
    std::shared_ptr<UsageWatch> watch;
    std::function<FrameBytes()> frames;
    std::function<std::uint32_t()> writer_pid;
    std::function<std::optional<WriterReading>()> seen_by_writer;
  };

  UsageFeed(boost::asio::io_context& context, ServiceState& state, std::vector<Device> devices,
            const UsageFeedTimes& times = {});
  ~UsageFeed() = default;
  UsageFeed(const UsageFeed&) = delete;
  UsageFeed& operator=(const UsageFeed&) = delete;

  // One look at everything; the timer does it from start() on.
  void look(Nanoseconds now);
  void start();

 private:
  struct Watched {
    Device device;
    ForeignEstimate by_source{}, by_writer{};
    std::uint64_t source_readings = 0, writer_readings = 0;
    std::uint64_t total_bytes = 0;
    std::uint64_t told_bytes = 0;   // In the decision log.
    std::string_view told_state{};  // In the log.
  };

  void look_at(Watched& one, Nanoseconds now);
  GpuUsageStats report(const Watched& one, const UsageSnapshot& snapshot) const;
  void ask_writer(Watched& one);
  void tell_state(Watched& one, const GpuUsageStats& stats);
  void tell_change(Watched& one, std::uint64_t foreign_bytes);

  ServiceState& state_;
  const UsageFeedTimes times_;
  boost::asio::steady_timer timer_;
  std::vector<Watched> devices_;
  Lifetime life_;
};

}  // namespace penstock
