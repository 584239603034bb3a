// SPDX-License-Identifier: Apache-2.0
// Who waits for a read: a client that faulted, or nobody in particular.
#pragma once

#include <cstdint>

namespace penstock {

enum class Urgency : std::uint8_t { fault, bulk };

}  // namespace penstock
