// SPDX-License-Identifier: Apache-2.0
// What the core knows of a session: the tables it has attached, which of their pages it has been granted,
// what it has been asked and has not answered.
//
// A mapping is one byte a page and attached session:
//   none -> granted -> revoking -> none | busy | later;  busy -> granted (idle);  later -> overdue -> none
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "dataplane/core/page_table.hpp"
#include "dataplane/core/pager_events.hpp"
#include "dataplane/core/ticket_record.hpp"

namespace penstock {

enum class MappingState : std::uint8_t {
  none,
  granted,
  busy,      // Pinned, by its own word: no victim until idle.
  revoking,  // Revoke sent, no answer.
  later,     // Cooperative: answered `busy, later`; the answer is still to come.
  overdue,   // The same, past its deadline.
};

// How a mapping stands in the way of an eviction.
enum class MappingWeight : std::uint8_t { nothing, light, busy, slow, blocked };

constexpr MappingWeight weight_of(MappingState state, bool stuck) {
  if (state == MappingState::none) return MappingWeight::nothing;
  if (stuck || state == MappingState::overdue) return MappingWeight::blocked;
  if (state == MappingState::busy) return MappingWeight::busy;
  return state == MappingState::later ? MappingWeight::slow : MappingWeight::light;
}

// One a session and attached table.
struct TableMapping {
  static constexpr std::uint8_t serials = 32;

  PagingSession* session = nullptr;
  PagedTable* table = nullptr;
  RevokeMode mode = RevokeMode::agent;
  std::uint32_t cutoff = ~0u;
  std::vector<std::uint8_t> words;  // State, and how often the page has been revoked (mod 32).

  MappingState state(std::uint32_t index) const { return static_cast<MappingState>(words[index] & 7); }
  std::uint8_t serial(std::uint32_t index) const { return static_cast<std::uint8_t>(words[index] >> 3); }
};

struct OpenRevoke {
  TableMapping* mapping = nullptr;
  std::uint32_t index = 0;
  std::uint8_t serial = 0;
  Nanoseconds sent{};
};

// Revokes in the order in which they were sent. Answered ones are dropped when they are met, or when they are
// more than the open ones, so that the cost of each is constant.
class RevokeQueue {
 public:
  template <class IsOpen>
  void push(const OpenRevoke& revoke, IsOpen&& is_open) {
    if (revokes_.size() > 64 && revokes_.size() > 2 * kept_) keep_if(is_open);
    revokes_.push_back(revoke);
  }

  template <class IsOpen>
  void keep_if(IsOpen&& is_open) {
    std::size_t kept = 0;
    for (std::size_t place = head_; place < revokes_.size(); ++place) {
      if (is_open(revokes_[place])) revokes_[kept++] = revokes_[place];
    }
    revokes_.resize(kept);
    head_ = 0;
    kept_ = kept;
  }

  // The oldest that is open, or null.
  template <class IsOpen>
  const OpenRevoke* oldest(IsOpen&& is_open) {
    while (head_ < revokes_.size() && !is_open(revokes_[head_])) ++head_;
    if (head_ < revokes_.size()) return &revokes_[head_];
    revokes_.clear();
    head_ = kept_ = 0;
    return nullptr;
  }

  template <class Visit>
  void for_each(Visit&& visit) {
    for (std::size_t place = head_; place < revokes_.size(); ++place) visit(revokes_[place]);
  }

 private:
  std::vector<OpenRevoke> revokes_;
  std::size_t head_ = 0;  // Those before it are answered.
  std::size_t kept_ = 0;  // Open ones at the last clean-up.
};

struct GrantBatch {
  std::uint32_t number = 0;
  bool open = false;
  bool expired = false;            // Missed its deadline; what it held is dropped.
  TicketRecord* ticket = nullptr;  // Null: answered, by this batch or otherwise.
  Nanoseconds sent{};              // Or since when somebody waits for the acknowledgement.
};

struct PagingSession {
  SessionId id{};
  std::uint32_t private_frames_max = 0;  // 0: no quota.
  std::uint32_t private_frames = 0;
  std::uint32_t mapped = 0;
  bool stuck = false;
  bool woken = false;  // Is in the list of sessions to look at.
  GrantBatch batch;
  std::map<TableId, std::unique_ptr<TableMapping>> mappings;
  SessionTickets tickets;
  RevokeQueue unanswered;  // Deadline: revoke_deadline.
  RevokeQueue unfinished;  // Cooperative tables only. Deadline: cooperative_deadline.

  TableMapping* find(TableId table) const {
    const auto found = mappings.find(table);
    return found == mappings.end() ? nullptr : found->second.get();
  }
};

inline bool is_unanswered(const OpenRevoke& revoke) {
  return revoke.mapping->state(revoke.index) == MappingState::revoking &&
         revoke.mapping->serial(revoke.index) == revoke.serial;
}
inline bool is_unfinished(const OpenRevoke& revoke) {
  const MappingState state = revoke.mapping->state(revoke.index);
  return (state == MappingState::revoking || state == MappingState::later) &&
         revoke.mapping->serial(revoke.index) == revoke.serial;
}

}  // namespace penstock
