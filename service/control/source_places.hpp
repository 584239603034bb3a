// SPDX-License-Identifier: Apache-2.0
// SourcePlaces: tells each device from where the bytes of its tables could be read again, so that of equals it evicts what
// costs least to bring back. Service thread only.
#pragma once

#include "service/control/service_state.hpp"

namespace penstock {

// The cheapest place that holds three quarters of `bytes`; the one that is `now` counts as long as it holds half of them,
// so that a place on the edge doesn't move to and fro.
SourcePlace cheapest_place(SourcePlace now, std::uint64_t bytes, std::uint64_t locked_host_bytes,
                           std::uint64_t page_cache_bytes);

// The same for pages that only a client can fill again, from what the kernel last said of its process; `memory` may be
// null. What is compressed is still in memory.
SourcePlace place_in_client(SourcePlace now, const ProcessMemory* memory);

class SourcePlaces {
 public:
  explicit SourcePlaces(ServiceState& state) : state_(state) {}
  // Looks at all tables and tells devices of those whose bytes have moved; at most once a `period`.
  void look(Nanoseconds now);

  static constexpr Nanoseconds period = std::chrono::milliseconds(250);

 private:
  SourcePlace place_of(const SharedTable& table, const KernelStats* kernel) const;

  ServiceState& state_;
  Nanoseconds next_{};
};

}  // namespace penstock
