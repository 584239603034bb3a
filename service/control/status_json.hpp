// SPDX-License-Identifier: Apache-2.0
// The JSON of `status` and `doctor`, read off the service's state. What nobody measures is absent, never 0.
#pragma once

#include <functional>

#include <nlohmann/json_fwd.hpp>

#include "service/control/service_state.hpp"

namespace penstock {

// `shown`: may the asking client see this checkpoint's path?
nlohmann::json status_json(const ServiceState& service, const std::function<bool(const Checkpoint&)>& shown);
nlohmann::json doctor_json(const ServiceState& service);

}  // namespace penstock
