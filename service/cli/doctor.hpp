// SPDX-License-Identifier: Apache-2.0
// What the parts of `penstock doctor` share.
#pragma once

#include <string>
#include <vector>

#include "service/cli/json_values.hpp"

namespace penstock {

struct Check {
  std::string name;
  const char* state = "ok";  // ok, degraded, missing
  std::string detail;
  std::string remedy;
};

// One check a vendor, and one a GPU with its self-test. `drivers` and `gpus` get what the checks are made of. Loads the
// drivers and uses each GPU for a moment.
std::vector<Check> check_gpus(Json& drivers, Json& gpus);

}  // namespace penstock
