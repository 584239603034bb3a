// SPDX-License-Identifier: Apache-2.0
#include "bpf/remedy.hpp"

namespace penstock {

std::string probe_remedy(const KernelFacts& facts, ProbeLevel level, std::span<const ProbeReport> reports) {
  if (level >= ProbeLevel::traced) return {};
  const std::string why = reports.empty() ? std::string() : reports.front().why;
  if (why == "turned off") return "probes.ebpf = \"auto\" in the configuration";
  if (why.starts_with("not built")) return "build penstock with clang and bpftool";
  if (!facts.has_btf) return "a kernel with CONFIG_DEBUG_INFO_BTF, and /sys readable";
  if (!facts.can_bpf && !facts.can_perfmon) return "AmbientCapabilities=CAP_BPF CAP_PERFMON in the unit";
  if (!facts.can_bpf) return "AmbientCapabilities=CAP_BPF in the unit";
  if (!facts.can_perfmon) return "AmbientCapabilities=CAP_PERFMON in the unit";
  if (why.find("EPERM") != std::string::npos || why.find("EACCES") != std::string::npos)
    return "allow bpf(2) in the sandbox's system call filter";
  return "a kernel with the tracepoints that are missing: 6.1 or later has them";
}

}  // namespace penstock
