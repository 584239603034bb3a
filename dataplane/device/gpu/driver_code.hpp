// SPDX-License-Identifier: Apache-2.0
// What a driver answered, and what that means for us. CUDA and HIP number alike whatever we branch on, so that one
// classification serves both.
#pragma once

#include <cstdint>
#include <string_view>

#include "dataplane/base/result.hpp"

namespace penstock {

struct [[nodiscard]] DriverCode {
  std::int32_t native = 0;  // CUresult or hipError_t.
  const char* call = "";    // The driver's function; static.

  bool ok() const { return native == 0; }
};

enum class DriverClass : std::uint8_t {
  done,
  not_ready,     // The answer of a query: the work still runs.
  pressure,      // Out of memory: an answer, not an error.
  rejected,      // This request was wrong or not allowed; the next one may be right.
  absent,        // Not here: no device, the toolkit's stub, not supported.
  skew,          // Library and kernel driver do not fit together.
  context_dead,  // Whatever uses this context is over; other processes are not.
  device_dead,   // The driver is shutting down or the device is gone.
};
DriverClass classify(std::int32_t native);
inline DriverClass classify(DriverCode code) { return classify(code.native); }

// REQUIRES: not ok.
Error to_error(DriverCode code);
// "out_of_memory"; "unlisted" for numbers that we have no word for.
std::string_view driver_code_name(std::int32_t native);

}  // namespace penstock
