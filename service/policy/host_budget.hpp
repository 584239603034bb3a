// SPDX-License-Identifier: Apache-2.0
// The node's budget of locked host memory: the host buffers of all clients together. Pure.
//
// A buffer is booked before it is made and counts until it is freed, or its session ends; it is never a
// victim. Invariants: DESIGN.md, checked by verify().
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>

#include "dataplane/base/failure.hpp"
#include "dataplane/base/ids.hpp"

namespace penstock {

enum class HostBufferId : std::uint64_t {};  // Numbered from 1, never reused.

struct HostBudgetOptions {
  std::uint64_t budget_bytes = 0;
  std::uint64_t per_user_bytes = 0;  // 0 = no quota
  std::size_t buffers_per_session_max = 4096;
};

class HostBudget {
 public:
  explicit HostBudget(const HostBudgetOptions& options) : options_(options) {}

  // REQUIRES: the session is not open.
  void open_session(SessionId session, std::uint32_t user);
  // Frees all its buffers; returns their bytes. An unknown session has none.
  std::uint64_t close_session(SessionId session);

  // Books a buffer. `headroom_bytes`: what the machine and its cgroups could still give.
  // Failures: never_fits, exhausted (in use by others), headroom, quota, fd_limit (too many buffers),
  // invalid_argument (0 bytes), not_found (unknown session).
  Outcome<HostBufferId> allocate(SessionId session, std::uint64_t bytes,
                                 std::uint64_t headroom_bytes = UINT64_MAX);
  // Makes a buffer smaller, to 0 at least; returns the bytes that became free. Failures: not_found (unknown,
  // or another session's), invalid_argument (larger than it is).
  Outcome<std::uint64_t> truncate(SessionId session, HostBufferId buffer, std::uint64_t bytes);
  // Returns the bytes that became free. Failure: not_found.
  Outcome<std::uint64_t> free(SessionId session, HostBufferId buffer);

  // Less than is in use is no error: nothing new is booked until it fits again.
  void set_budget(std::uint64_t bytes) { options_.budget_bytes = bytes; }
  // What pressure leaves of the budget, what is in use included.
  void set_allowed(std::uint64_t bytes) { allowed_bytes_ = bytes; }
  std::uint64_t allowed_bytes() const { return std::min(options_.budget_bytes, allowed_bytes_); }
  void set_quota(std::uint64_t per_user_bytes) { options_.per_user_bytes = per_user_bytes; }

  std::uint64_t budget_bytes() const { return options_.budget_bytes; }
  std::uint64_t used_bytes() const { return used_bytes_; }
  std::uint64_t session_bytes(SessionId session) const;
  std::uint64_t user_bytes(std::uint32_t user) const;
  void verify() const;

 private:
  struct Buffer {
    SessionId session{};
    std::uint64_t bytes = 0;
  };
  struct Session {
    std::uint32_t user = 0;
    std::uint64_t bytes = 0;
    std::size_t buffers = 0;
  };

  void give_back(SessionId session, std::uint64_t bytes);

  HostBudgetOptions options_;
  std::map<SessionId, Session> sessions_;
  std::map<HostBufferId, Buffer> buffers_;
  std::map<std::uint32_t, std::uint64_t> user_bytes_;  // No entry for a user without buffers.
  std::uint64_t used_bytes_ = 0;
  std::uint64_t allowed_bytes_ = UINT64_MAX;
  std::uint64_t last_buffer_ = 0;
};

}  // namespace penstock
