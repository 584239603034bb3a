// SPDX-License-Identifier: Apache-2.0
#include "bpf/residency_query.hpp"

namespace penstock {

ProbeLevel ResidencyQuery::level() const {
  switch (query_.way()) {
    case PageCacheQuery::Way::cachestat: return ProbeLevel::cachestat;
    case PageCacheQuery::Way::mincore: return ProbeLevel::mincore;
    case PageCacheQuery::Way::none: return ProbeLevel::none;
  }
  return ProbeLevel::none;
}

}  // namespace penstock
