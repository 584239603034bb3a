// SPDX-License-Identifier: Apache-2.0
#include "service/control/watchdog.hpp"

#include <utility>

#include <spdlog/spdlog.h>

namespace penstock {

Watchdog::Watchdog(boost::asio::io_context& context, ServiceState& state, Nanoseconds period,
                   std::function<void()> alive)
    : state_(state),
      period_(period),
      alive_(std::move(alive)),
      timer_(context),
      answered_(std::make_shared<std::vector<bool>>(state.devices.size(), true)) {}

void Watchdog::start() { look(); }

// No table has the number 0: the thread says so on its next turn, and does nothing else.
void Watchdog::ask(std::size_t device) {
  (*answered_)[device] = false;
  state_.devices[device]->ask(
      mail::ScrubTable{.request = {}, .any_table = false, .table = TableId{0}},
      [answered = answered_, device](const RequestDone&) { (*answered)[device] = true; });
}

void Watchdog::look() {
  bool progress = true;
  for (std::size_t device = 0; device < state_.devices.size(); ++device) {
    if (state_.devices[device]->stopped()) continue;
    if ((*answered_)[device]) {
      ask(device);
      continue;
    }
    progress = false;
    if (!std::exchange(told_, true))
      spdlog::warn("device {}: its thread does not answer", state_.devices[device]->description().id);
  }
  if (progress) {
    told_ = false;
    alive_();
  }
  timer_.expires_after(period_);
  timer_.async_wait([this, life = life_.watch()](const boost::system::error_code& error) {
    if (!error && !life.over()) look();
  });
}

}  // namespace penstock
