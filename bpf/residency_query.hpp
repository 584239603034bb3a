// SPDX-License-Identifier: Apache-2.0
// ResidencyQuery: how much of a file the page cache holds, without BPF, and what level of knowledge that is.
#pragma once

#include <cstdint>
#include <optional>

#include "bpf/kernel_facts.hpp"
#include "bpf/probe_stats.hpp"
#include "dataplane/base/page_cache_query.hpp"

namespace penstock {

class ResidencyQuery {
 public:
  // `fd` must stay open as long as this object asks.
  static ResidencyQuery choose(int fd, const KernelFacts& facts) {
    return ResidencyQuery(PageCacheQuery::choose(fd, facts.owns_files));
  }

  ProbeLevel level() const;                         // cachestat, mincore or none.
  const char* why() const { return query_.why(); }  // Why not cachestat; "" when it is.

  // As PageCacheQuery's.
  std::optional<std::uint64_t> resident_bytes(std::uint64_t offset, std::uint64_t length) const {
    return query_.resident_bytes(offset, length);
  }

 private:
  explicit ResidencyQuery(PageCacheQuery query) : query_(query) {}

  PageCacheQuery query_;
};

}  // namespace penstock
