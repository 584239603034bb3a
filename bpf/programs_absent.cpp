// SPDX-License-Identifier: Apache-2.0
// The twin of loaded_programs.cpp, for a build that had no compiler for BPF.
#include "bpf/probe_plan.hpp"
#include "bpf/programs.hpp"

namespace penstock {

std::unique_ptr<Programs> Programs::load(const KernelFacts&, const ProgramOptions&,
                                         std::vector<ProbeReport>& reports) {
  reports.clear();
  for (const ProbePlan& plan : probe_plans()) {
    reports.push_back({.name = plan.name, .why = "not built: this build had no clang or no bpftool"});
  }
  return nullptr;
}

}  // namespace penstock
