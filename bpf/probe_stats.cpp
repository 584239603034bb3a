// SPDX-License-Identifier: Apache-2.0
#include "bpf/probe_stats.hpp"

namespace penstock {

const char* probe_level_name(ProbeLevel level) {
  switch (level) {
    case ProbeLevel::none: return "none";
    case ProbeLevel::mincore: return "mincore";
    case ProbeLevel::cachestat: return "cachestat";
    case ProbeLevel::traced: return "traced";
    case ProbeLevel::traced_and_faults: return "traced_and_faults";
  }
  return "none";
}

const char* removal_cause_name(RemovalCause cause) {
  switch (cause) {
    case RemovalCause::kswapd: return "kswapd";
    case RemovalCause::direct_reclaim: return "direct_reclaim";
    case RemovalCause::memcg_limit: return "memcg_limit";
    case RemovalCause::other_reclaim: return "other_reclaim";
    case RemovalCause::fadvise: return "fadvise";
    case RemovalCause::drop_caches: return "drop_caches";
    case RemovalCause::direct_write: return "direct_write";
    case RemovalCause::truncate: return "truncate";
    case RemovalCause::other: return "other";
  }
  return "other";
}

const char* reclaim_kind_name(ReclaimKind kind) {
  switch (kind) {
    case ReclaimKind::direct: return "direct";
    case ReclaimKind::memcg: return "memcg";
    case ReclaimKind::soft_limit: return "soft_limit";
    case ReclaimKind::node: return "node";
  }
  return "direct";
}

}  // namespace penstock
