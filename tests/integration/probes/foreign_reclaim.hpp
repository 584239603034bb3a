// SPDX-License-Identifier: Apache-2.0
// What may take pages of any file at any time, and how much of it the kernel itself counts: no probe of ours says that.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "bpf/probe_stats.hpp"

namespace penstock::test {

// Pages by the cause that a probe gives.
using PagesByCause = std::array<std::int64_t, removal_causes>;

// Of the whole machine since its start, from /proc/vmstat and the threads of DAMON.
struct ForeignReclaim {
  static ForeignReclaim read();

  std::uint64_t kswapd_pages = 0;
  std::uint64_t direct_pages = 0;
  std::uint64_t drops = 0;     // Of all page caches,
  std::uint64_t damon_ns = 0;  // and how long DAMON ran: the kernel does not count what it takes.
};

// Empty, or what was taken for a foreign cause, in `removed`, that nobody else can have taken since `before`. The kernel
// counts late: a batch of pages after it is gone, a drop when all caches are done. So this waits, with a bound.
std::string more_than_others_took(const PagesByCause& removed, RemovalCause expected,
                                  const ForeignReclaim& before);

}  // namespace penstock::test
