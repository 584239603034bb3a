// SPDX-License-Identifier: Apache-2.0
// Watchdog: says `alive` again and again, as long as the service thread and all devices' threads make progress. Whoever
// hears of that ends the process when it hears nothing for too long. Service thread only.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "dataplane/base/lifetime.hpp"
#include "service/control/service_state.hpp"

namespace penstock {

class Watchdog {
 public:
  // After the devices. `state` outlives the watchdog.
  Watchdog(boost::asio::io_context& context, ServiceState& state, Nanoseconds period,
           std::function<void()> alive);

  void start();

 private:
  void look();
  void ask(std::size_t device);

  ServiceState& state_;
  const Nanoseconds period_;
  const std::function<void()> alive_;
  boost::asio::steady_timer timer_;
  Lifetime life_;
  std::shared_ptr<std::vector<bool>> answered_;  // By device; late answers may outlive the watchdog.
  bool told_ = false;                            // Of the one that does not answer.
};

}  // namespace penstock
