// SPDX-License-Identifier: Apache-2.0
// What the parts of `penstock doctor` share.
#pragma once

#include <string>
#include <vector>

#include "dataplane/device/gpu/gpu_driver.hpp"
#include "service/cli/json_values.hpp"

namespace penstock {

struct Check {
  std::string name;
  const char* state = "ok";  // ok, degraded, missing
  std::string detail;
  std::string remedy;
};

// One check a vendor, and one a GPU with its self-test. `drivers` and `gpus` get what the checks are made of. Loads the
// drivers and uses each GPU for a moment. `with_usage`: also whether anybody tells what others use of it.
std::vector<Check> check_gpus(Json& drivers, Json& gpus, bool with_usage);

// Whether anybody tells what others use of a GPU: as the service knows it, and as it is found without one.
std::vector<Check> check_service_usage(const Json& devices);
std::vector<Check> check_usage(GpuVendor vendor, const std::vector<GpuDescription>& gpus);

// Which GPUs this build has code for. `report` gets the list.
Check check_device_code(Json& report);

// What became of the kernel's probes: of the service, by its answer to doctor, or of this program, which then loads them
// for a moment. `report` gets the list.
Check check_probes(const Json& service, Json& report);

}  // namespace penstock
