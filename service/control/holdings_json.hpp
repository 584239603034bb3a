// SPDX-License-Identifier: Apache-2.0
// What lies where of one client, by kind: what it says of itself, and what the kernel says of its process. What nobody
// measures is absent.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "bpf/process_memory.hpp"
#include "service/protocol/control_messages.hpp"

namespace penstock {

// The object `kinds`. `devices`: ids by a holding's number. `process` may be null; with it, anonymous memory that no
// holding accounts for is other.
nlohmann::json kinds_json(const std::vector<wire::Holding>& holdings, const std::vector<std::string>& devices,
                          const ProcessMemory* process);
// The object `process`.
nlohmann::json process_json(const ProcessMemory& process);

}  // namespace penstock
