// SPDX-License-Identifier: Apache-2.0
// Memory that clients have on GPUs which are no devices of the service, since it can't be shared: whole copies of tables,
// allocated by the clients themselves. Pure.
//
// Bytes are booked before they are allocated, so that two clients that load at once find out here and not from the driver.
// What programs that don't ask the service use there is not known; the driver's refusal says it.
//
//   K1. A GPU's bytes are the sum of its bookings; a session's, too.
//   K2. A booking that is not of what exists already never takes the sum beyond what the GPU has.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dataplane/base/failure.hpp"
#include "dataplane/base/ids.hpp"

namespace penstock {

class CopyLedger {
 public:
  static constexpr std::size_t copies_per_session_max = 1024;

  struct Gpu {
    std::string id;
    std::string kind;
    std::uint64_t total_bytes = 0;
    std::uint64_t headroom_bytes = 0;
  };
  struct Asked {
    std::string_view gpu;
    std::uint64_t copy = 0;   // The client's number.
    std::uint64_t bytes = 0;  // 0: it is given back.
    bool exists = false;      // Counts, whatever there is room for.
  };
  struct Figures {
    const Gpu* gpu = nullptr;
    std::uint64_t copies_bytes = 0;
    std::size_t sessions = 0;  // That have any there.
  };

  // REQUIRES: another id than those before.
  void add(Gpu gpu) { gpus_.push_back(std::move(gpu)); }
  // Failures: not_found (no such GPU), exhausted, busy (too many copies). A failure leaves what was booked under the number.
  Outcome<void> book(SessionId session, const Asked& asked);
  void close(SessionId session) { sessions_.erase(session); }

  std::vector<Figures> figures() const;
  // Of one session, by the GPU's id.
  std::map<std::string_view, std::uint64_t> bytes_of(SessionId session) const;

 private:
  struct Copy {
    std::size_t gpu = 0;
    std::uint64_t bytes = 0;
  };
  Figures figures_of(std::size_t gpu) const;

  std::vector<Gpu> gpus_;
  std::map<SessionId, std::map<std::uint64_t, Copy>> sessions_;  // No entry for a session without copies.
};

}  // namespace penstock
