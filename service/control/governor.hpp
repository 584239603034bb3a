// SPDX-License-Identifier: Apache-2.0
// Governor: looks at what memory the node has left, asks the policy of pressure, and carries its answer out. It alone
// splits host memory. Service thread only; others wake it through an EventFd.
//
// A look reads cgroup files (tens of microseconds). The next one comes before what is left could be used up, at once when
// the alarm is raised. From there to the pager's mail nothing is allocated; log and clients hear of it afterwards.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>

#include "dataplane/base/event_fd.hpp"
#include "dataplane/base/lifetime.hpp"
#include "dataplane/device/headroom_source.hpp"
#include "service/control/service_state.hpp"
#include "service/control/source_places.hpp"
#include "service/control/spare_page_cache.hpp"
#include "service/policy/frame_shares.hpp"
#include "service/policy/pressure.hpp"

namespace penstock {

// A device whose frames are host memory: host memory itself, a GPU that shares it. Both functions may be called on any
// thread and do not wait.
struct HostFrames {
  std::size_t position = 0;                      // In ServiceState::devices.
  std::function<std::uint64_t()> frame_bytes;    // Of all frames that exist.
  std::function<void(bool)> set_making_ahead{};  // Empty where none is made ahead of demand.
  std::uint64_t ahead_bytes = 0;
};

class Governor {
 public:
  struct Options {
    Nanoseconds period = std::chrono::milliseconds(250);
    Nanoseconds period_least = std::chrono::milliseconds(5);
    std::uint64_t taken_a_second_most = 4 * gib;   // By others, as fast as a node can.
    Nanoseconds remind = std::chrono::seconds(1);  // Clients, of what they hold of what is missing.
    PressureOptions policy;
  };
  // `frames`: of all devices that use host memory; what they may use at most, and make ahead, is taken from there.
  // `alarm` and `headroom` outlive the governor.
  Governor(boost::asio::io_context& context, ServiceState& state, HeadroomSource& headroom,
           const EventFd& alarm, std::vector<HostFrames> frames, Options options);
  ~Governor();
  Governor(const Governor&) = delete;
  Governor& operator=(const Governor&) = delete;

  void start();
  // One turn; returns when the next one is due.
  Nanoseconds look(Nanoseconds now);

 private:
  PressureSample sample(Nanoseconds now);
  void act(const PressureAnswer& answer);
  void tell(const PressureSample& sample, const PressureAnswer& answer, const PressureAnswer& before);
  void tell_clients(Nanoseconds now, const PressureAnswer& answer, bool changed);
  void look_and_arm();
  void await_alarm();

  ServiceState& state_;
  HeadroomSource& headroom_;
  const EventFd& alarm_;
  const std::vector<HostFrames> frames_;
  std::vector<FrameShare> shares_;  // Of the same devices.
  const Options options_;
  PressurePolicy policy_;
  SparePageCache spare_page_cache_;
  SourcePlaces source_places_;
  boost::asio::steady_timer timer_;
  boost::asio::posix::stream_descriptor wake_;
  Lifetime life_;
  Nanoseconds remind_at_{};
};

}  // namespace penstock
