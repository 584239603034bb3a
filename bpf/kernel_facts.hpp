// SPDX-License-Identifier: Apache-2.0
// What decides whether the kernel lets this process probe it, and the line that explains a refusal.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace penstock {

enum class Lockdown : std::uint8_t { none, integrity, confidentiality };

struct KernelFacts {
  bool has_btf = false;
  bool can_bpf = false;      // CAP_BPF, or CAP_SYS_ADMIN.
  bool can_perfmon = false;  // CAP_PERFMON, or CAP_SYS_ADMIN.
  bool owns_files = false;   // CAP_FOWNER: residency of anybody's files may be asked for.
  Lockdown lockdown = Lockdown::none;
};

// `root` is the descriptor of "/" or of a literal tree.
KernelFacts read_kernel_facts(int root);

// Pure parsers: the CapEff line of /proc/PID/status, 0 when there is none; /sys/kernel/security/lockdown.
std::uint64_t parse_effective_capabilities(std::string_view status);
Lockdown parse_lockdown(std::string_view text);

// Why a step did not work: "program load: EPERM; CAP_PERFMON is missing". `step` says what was tried, `error` is an
// errno.
std::string explain_refusal(const KernelFacts& facts, std::string_view step, int error);

}  // namespace penstock
