// SPDX-License-Identifier: Apache-2.0
#include "bpf/kernel_facts.hpp"

#include <cerrno>
#include <charconv>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "bpf/text_file.hpp"
#include "dataplane/base/unique_fd.hpp"

namespace penstock {
namespace {

// From linux/capability.h, which names them in macros only.
constexpr unsigned cap_fowner = 3, cap_sys_admin = 21, cap_perfmon = 38, cap_bpf = 39;

bool holds(std::uint64_t capabilities, unsigned number) { return (capabilities >> number & 1) != 0; }

}  // namespace

std::uint64_t parse_effective_capabilities(std::string_view status) {
  constexpr std::string_view key = "\nCapEff:";
  const std::size_t at = status.find(key);
  if (at == std::string_view::npos) return 0;
  std::string_view rest = status.substr(at + key.size());
  while (!rest.empty() && (rest.front() == ' ' || rest.front() == '\t')) rest.remove_prefix(1);
  std::uint64_t bits = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), bits, 16);
  return error == std::errc{} ? bits : 0;
}

Lockdown parse_lockdown(std::string_view text) {
  // "none [integrity] confidentiality"
  if (text.find("[integrity]") != std::string_view::npos) return Lockdown::integrity;
  if (text.find("[confidentiality]") != std::string_view::npos) return Lockdown::confidentiality;
  return Lockdown::none;
}

KernelFacts read_kernel_facts(int root) {
  const std::uint64_t capabilities =
      parse_effective_capabilities(read_text(root, "proc/self/status").value_or(""));
  const bool admin = holds(capabilities, cap_sys_admin);
  // Several megabytes: what counts is that it opens.
  const UniqueFd btf(::openat(root, "sys/kernel/btf/vmlinux", O_RDONLY | O_CLOEXEC));
  return {.has_btf = static_cast<bool>(btf),
          .can_bpf = admin || holds(capabilities, cap_bpf),
          .can_perfmon = admin || holds(capabilities, cap_perfmon),
          .owns_files = holds(capabilities, cap_fowner),
          .lockdown = parse_lockdown(read_text(root, "sys/kernel/security/lockdown").value_or(""))};
}

std::string explain_refusal(const KernelFacts& facts, std::string_view step, int error) {
  const char* const name = ::strerrorname_np(error);
  std::string line = fmt::format("{}: {}", step, name != nullptr ? name : fmt::format("error {}", error));
  if (error != EPERM && error != EACCES) return line;
  // The kernel says EPERM for each of these; its own text speaks of locked memory.
  if (!facts.can_bpf && !facts.can_perfmon) return line + "; CAP_BPF and CAP_PERFMON are missing";
  if (!facts.can_bpf) return line + "; CAP_BPF is missing";
  if (!facts.can_perfmon) return line + "; CAP_PERFMON is missing";
  if (facts.lockdown == Lockdown::confidentiality)
    return line + "; the kernel is locked down (confidentiality)";
  return line +
         "; capabilities suffice, so a seccomp filter, a security module or the kernel's build refuses it";
}

}  // namespace penstock
