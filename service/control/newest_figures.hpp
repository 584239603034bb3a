// SPDX-License-Identifier: Apache-2.0
// A device's thread publishes its figures after its answers have left, so whoever has just been answered and asks what is
// resident could be shown what was before. Service thread only.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include <boost/asio/io_context.hpp>

#include "dataplane/base/clock.hpp"
#include "service/control/device_link.hpp"

namespace penstock {

// For a thread that does not go on: a call of its hangs, or others have the processors.
inline constexpr Nanoseconds newest_figures_wait_max = std::chrono::milliseconds(20);

// Calls `then` when the figures of all devices show what their threads had answered by now: at once where they do, else
// later, and after that wait in any case. The devices live as long as `context` runs.
void with_newest_figures(boost::asio::io_context& context,
                         const std::vector<std::unique_ptr<DeviceLink>>& devices, std::function<void()> then);

}  // namespace penstock
