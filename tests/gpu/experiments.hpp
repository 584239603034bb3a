// SPDX-License-Identifier: Apache-2.0
// The experiments, each of which gets a process of its own that has not touched the driver.
#pragma once

#include "tests/gpu/report.hpp"

namespace penstock::gpu_check {

struct Experiment {
  const char* id;
  const char* name;
  void (*run)(Report& report);
};

// Who owns memory, and what lives on when somebody dies.
void context_free_owner(Report& report);        // E1
void owner_killed(Report& report);              // E3
void descriptor_kept_by_third(Report& report);  // E4
void ghost_bytes(Report& report);               // E5
void unreceived_descriptor(Report& report);     // E12
void fresh_frame_contents(Report& report);      // E13

// What the driver forbids.
void read_only_mapping(Report& report);  // E2
void descriptor_limit(Report& report);   // E8
void mapping_rules(Report& report);      // E9
void imported_twice(Report& report);     // E10
void exclusive_process(Report& report);  // E11

// What things cost.
void call_costs(Report& report);          // E6
void unmap_under_kernel(Report& report);  // E7
void load_rate(Report& report);
void fault_latency(Report& report);
void kernels_equal_reference(Report& report);

}  // namespace penstock::gpu_check
