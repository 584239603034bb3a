// SPDX-License-Identifier: Apache-2.0
// Why a checkpoint is not resident as a whole after a load, for people: the limit that was met, with its figures.
#pragma once

#include <cstddef>

#include "dataplane/base/failure.hpp"
#include "service/control/service_state.hpp"

namespace penstock {

// `reason` is the device's, of the pages that found no room; `position` the device's.
Failure load_shortage(const ServiceState& service, std::size_t position, FailureKind reason);

}  // namespace penstock
