// SPDX-License-Identifier: Apache-2.0
#include "service/policy/host_budget.hpp"

#include <fmt/format.h>

#include "dataplane/base/check.hpp"
#include "service/policy/amount.hpp"

namespace penstock {

void HostBudget::open_session(SessionId session, std::uint32_t user) {
  const bool inserted = sessions_.emplace(session, Session{.user = user, .bytes = 0, .buffers = 0}).second;
  CHECK(inserted);
}

std::uint64_t HostBudget::close_session(SessionId session) {
  const auto found = sessions_.find(session);
  if (found == sessions_.end()) return 0;
  const std::uint64_t bytes = found->second.bytes;
  give_back(session, bytes);
  std::erase_if(buffers_, [&](const auto& entry) { return entry.second.session == session; });
  sessions_.erase(found);
  return bytes;
}

Outcome<HostBufferId> HostBudget::allocate(SessionId session, std::uint64_t bytes,
                                           std::uint64_t headroom_bytes) {
  const auto found = sessions_.find(session);
  if (found == sessions_.end()) return fail(FailureKind::not_found, "unknown session");
  Session& owner = found->second;
  if (bytes == 0) return fail(FailureKind::invalid_argument, "asks for 0 bytes");
  if (bytes > options_.budget_bytes) {
    return fail(FailureKind::never_fits,
                fmt::format("{} of locked host memory can never fit in {}", amount(bytes),
                            amount(options_.budget_bytes)),
                "host.locked_bytes sets it");
  }
  if (options_.per_user_bytes != 0) {
    const std::uint64_t left = saturating_subtract(options_.per_user_bytes, user_bytes(owner.user));
    if (bytes > left) {
      return fail(FailureKind::quota,
                  fmt::format("needs {}, the quota leaves {} of {} to user {}", amount(bytes), amount(left),
                              amount(options_.per_user_bytes), owner.user),
                  "quota.per_user_bytes sets it");
    }
  }
  if (owner.buffers >= options_.buffers_per_session_max) {
    return fail(FailureKind::fd_limit,
                fmt::format("the session holds {} host buffers, which is the most", owner.buffers),
                "free some");
  }
  const std::uint64_t free = saturating_subtract(options_.budget_bytes, used_bytes_);
  if (bytes > free) {
    return fail(FailureKind::exhausted,
                fmt::format("needs {}, free {} of {} of locked host memory", amount(bytes), amount(free),
                            amount(options_.budget_bytes)),
                "others must free some first; host.locked_bytes sets the limit");
  }
  const std::uint64_t allowed = saturating_subtract(allowed_bytes_, used_bytes_);
  if (bytes > allowed) {
    return fail(
        FailureKind::headroom,
        fmt::format("needs {}, the node is short of memory and leaves {}", amount(bytes), amount(allowed)),
        "try again later");
  }
  if (bytes > headroom_bytes) {
    return fail(FailureKind::headroom,
                fmt::format("needs {}, the memory limit of the service leaves {}", amount(bytes),
                            amount(headroom_bytes)),
                "raise the memory limit of the service's control group");
  }
  const HostBufferId id{++last_buffer_};
  buffers_.emplace(id, Buffer{.session = session, .bytes = bytes});
  owner.bytes += bytes;
  ++owner.buffers;
  user_bytes_[owner.user] += bytes;
  used_bytes_ += bytes;
  return id;
}

Outcome<std::uint64_t> HostBudget::truncate(SessionId session, HostBufferId buffer, std::uint64_t bytes) {
  const auto found = buffers_.find(buffer);
  if (found == buffers_.end() || found->second.session != session)
    return fail(FailureKind::not_found, fmt::format("unknown host buffer {}", raw(buffer)));
  if (bytes > found->second.bytes) {
    return fail(FailureKind::invalid_argument, fmt::format("a host buffer of {} can't grow to {}",
                                                           amount(found->second.bytes), amount(bytes)));
  }
  const std::uint64_t freed = found->second.bytes - bytes;
  found->second.bytes = bytes;
  give_back(session, freed);
  return freed;
}

Outcome<std::uint64_t> HostBudget::free(SessionId session, HostBufferId buffer) {
  Outcome<std::uint64_t> freed = truncate(session, buffer, 0);
  if (!freed) return freed;
  buffers_.erase(buffer);
  --sessions_.at(session).buffers;
  return freed;
}

std::uint64_t HostBudget::session_bytes(SessionId session) const {
  const auto found = sessions_.find(session);
  return found == sessions_.end() ? 0 : found->second.bytes;
}

std::uint64_t HostBudget::user_bytes(std::uint32_t user) const {
  const auto found = user_bytes_.find(user);
  return found == user_bytes_.end() ? 0 : found->second;
}

void HostBudget::give_back(SessionId session, std::uint64_t bytes) {
  if (bytes == 0) return;
  Session& owner = sessions_.at(session);
  const auto user = user_bytes_.find(owner.user);
  CHECK(user != user_bytes_.end() && user->second >= bytes && owner.bytes >= bytes && used_bytes_ >= bytes);
  owner.bytes -= bytes;
  user->second -= bytes;
  if (user->second == 0) user_bytes_.erase(user);
  used_bytes_ -= bytes;
}

void HostBudget::verify() const {
  std::uint64_t by_buffer = 0, by_session = 0, by_user = 0;
  std::size_t buffers = 0;
  for (const auto& [id, buffer] : buffers_) {
    CHECK(sessions_.contains(buffer.session));
    by_buffer += buffer.bytes;
  }
  for (const auto& [id, session] : sessions_) {
    by_session += session.bytes;
    buffers += session.buffers;
  }
  for (const auto& [user, bytes] : user_bytes_) {
    CHECK(bytes > 0);
    by_user += bytes;
  }
  CHECK(by_buffer == used_bytes_ && by_session == used_bytes_ && by_user == used_bytes_);
  CHECK(buffers == buffers_.size());
}

}  // namespace penstock
