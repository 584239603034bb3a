// SPDX-License-Identifier: Apache-2.0
#include "service/control/newest_figures.hpp"

#include <utility>

#include <boost/asio/steady_timer.hpp>

namespace penstock {
namespace {

// The first look is soon, as a thread that goes on publishes in tens of microseconds; each one after it takes twice as long.
constexpr Nanoseconds first_wait = std::chrono::microseconds(100);

class Wait : public std::enable_shared_from_this<Wait> {
 public:
  Wait(boost::asio::io_context& context, std::function<void()> then)
      : timer_(context), then_(std::move(then)) {}

  void add(const DeviceLink& device, std::uint64_t turn) { behind_.push_back({&device, turn}); }

  void look() {
    std::erase_if(behind_, [](const Behind& one) {
      return one.device->stopped() || one.device->stats().are_of(one.turn);
    });
    if (behind_.empty() || waited_ >= newest_figures_wait_max) return then_();
    timer_.expires_after(wait_);
    waited_ += wait_;
    wait_ *= 2;
    timer_.async_wait([self = shared_from_this()](const boost::system::error_code& error) {
      if (!error) self->look();
    });
  }

 private:
  struct Behind {
    const DeviceLink* device = nullptr;
    std::uint64_t turn = 0;
  };

  boost::asio::steady_timer timer_;
  const std::function<void()> then_;
  std::vector<Behind> behind_;
  Nanoseconds wait_ = first_wait, waited_{};
};

}  // namespace

void with_newest_figures(boost::asio::io_context& context,
                         const std::vector<std::unique_ptr<DeviceLink>>& devices,
                         std::function<void()> then) {
  std::shared_ptr<Wait> wait;
  for (const auto& device : devices) {
    const std::uint64_t turn = device->stats().newest_turn();
    if (device->stopped() || device->stats().are_of(turn)) continue;
    if (!wait) wait = std::make_shared<Wait>(context, then);
    wait->add(*device, turn);
  }
  if (!wait) return then();
  wait->look();
}

}  // namespace penstock
