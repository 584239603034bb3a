// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "dataplane/kernels/device_code.hpp"
#include "service/cli/doctor.hpp"

namespace penstock {

Check check_device_code(Json& report) {
  std::string found;
  std::map<std::string_view, std::string> missing;  // By reason.
  for (const DeviceCodeEntry& entry : device_code_entries()) {
    report.push_back({{"architecture", entry.architecture}, {"missing", entry.missing}});
    (entry.missing.empty() ? found : missing[entry.missing]) += fmt::format(" {}", entry.architecture);
  }
  Check check{.name = "device code", .detail = found.empty() ? "none" : found.substr(1), .remedy = ""};
  for (const auto& [reason, architectures] : missing)
    check.detail += fmt::format("; missing:{} ({})", architectures, reason);
  if (missing.empty()) return check;
  check.state = found.empty() ? "missing" : "degraded";
  check.remedy =
      "only a matter of speed, and of those GPUs alone: the host converts and sums up for them. Build with "
      "nvcc, and with "
      "clang 19 and lld 19";
  return check;
}

}  // namespace penstock
