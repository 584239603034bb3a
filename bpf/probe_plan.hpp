// SPDX-License-Identifier: Apache-2.0
// Which programs serve which probe, and which alternative this kernel can have. Pure.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "bpf/kernel_facts.hpp"
#include "bpf/programs.hpp"

namespace penstock {

// Answers from the kernel's BTF; a test gives its own.
struct KernelSymbols {
  // Type of the tracepoint's first argument, "" when it has none; nothing when there is no such tracepoint. Pointers
  // end in '*'.
  std::function<std::optional<std::string>(const std::string& tracepoint)> first_argument;
  std::function<bool(const std::string& function)> has_function;
};

struct Tracepoint {
  const char* name;
  const char* first_argument;  // Its type; nullptr: whatever.
};

// One way to serve a probe: all of these programs, or none.
struct Alternative {
  const char* how;
  std::span<const char* const> programs;
  std::span<const Tracepoint> tracepoints;
  const char* function;  // Whose entry is probed; nullptr: none.
};

struct ProbePlan {
  Probe probe;
  const char* name;
  std::span<const Alternative> alternatives;  // The best first.
};

std::span<const ProbePlan> probe_plans();

// Empty, or what the kernel lacks for it.
std::string missing_for(const Alternative& alternative, const KernelSymbols& symbols);

}  // namespace penstock
