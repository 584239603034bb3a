// SPDX-License-Identifier: Apache-2.0
// The kernel's side of `status` and `doctor`. What nobody measures is absent.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "service/control/kernel_stats.hpp"
#include "service/policy/stats.hpp"

namespace penstock {

// `page_cache_bytes`, and `page_cache` with the causes of what came and went, into a checkpoint's object.
void add_page_cache(nlohmann::json& checkpoint, const PageCacheFigures& figures);
// `cgroup`, into a client's object.
void add_client_cgroup(nlohmann::json& client, const ClientCgroupFigures& figures);
// The object `pressure`. `stats` may be null; `level` is null before the governor's first look.
nlohmann::json pressure_json(const KernelStats* stats, const std::optional<GovernorFigures>& governor);
// `probes`, `probe_level` and `probe_remedy`, into the answer of doctor.
void add_probes(nlohmann::json& doctor, const KernelStats& stats);

}  // namespace penstock
