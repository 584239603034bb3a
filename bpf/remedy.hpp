// SPDX-License-Identifier: Apache-2.0
// What an operator can do so that the page cache is traced.
#pragma once

#include <span>
#include <string>

#include "bpf/kernel_facts.hpp"
#include "bpf/probe_stats.hpp"

namespace penstock {

// Empty when the page cache is traced already. Pure.
std::string probe_remedy(const KernelFacts& facts, ProbeLevel level, std::span<const ProbeReport> reports);

}  // namespace penstock
