// SPDX-License-Identifier: Apache-2.0
// ResidencyQuery: asks the kernel how much of a file the page cache holds, without BPF.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "bpf/kernel_facts.hpp"
#include "bpf/probe_stats.hpp"

namespace penstock {

class ResidencyQuery {
 public:
  // Which way serves this file: cachestat(2), else mincore, else none with a line in `why`. `fd` must stay open as long
  // as this object asks.
  static ResidencyQuery choose(int fd, const KernelFacts& facts);

  ProbeLevel level() const { return level_; }  // cachestat, mincore or none.
  const char* why() const { return why_; }     // Why not cachestat; "" when it is.

  // Bytes resident of [offset, offset + length), in whole pages; a large folio may have some beyond the file's end.
  // Nothing when the kernel won't say. REQUIRES: offset is on a page boundary.
  std::optional<std::uint64_t> resident_bytes(std::uint64_t offset, std::uint64_t length) const;

 private:
  ResidencyQuery(int fd, ProbeLevel level, const char* why) : fd_(fd), level_(level), why_(why) {}

  int fd_;
  ProbeLevel level_;
  const char* why_;
};

}  // namespace penstock
