// SPDX-License-Identifier: Apache-2.0
// CommandStream: the core's commands in order. What the caller's buffer has no room for waits here, so
// nothing is lost; loops of unbounded length stop when has_room() is false, so that little waits.
#pragma once

#include <algorithm>
#include <cstddef>
#include <variant>
#include <vector>

#include "dataplane/core/pager_core.hpp"

namespace penstock {

class CommandStream {
 public:
  // The buffer is used until the next call.
  void begin(CommandBuffer& buffer) {
    buffer_ = &buffer;
    while (next_ < waiting_.size() && !buffer_->full()) buffer_->push(waiting_[next_++]);
    if (next_ < waiting_.size()) return;
    waiting_.clear();
    next_ = 0;
  }

  void push(const Command& command) {
    if (waiting_.empty() && !buffer_->full()) return buffer_->push(command);
    waiting_.push_back(command);
  }

  bool waits() const { return !waiting_.empty(); }
  // A whole grant batch, whom its pages are shared with and its completion fit.
  bool has_room() const { return waiting_.empty() && buffer_->room() >= 2 * grant_batch_pages + 2; }

  // Nothing more is said to a session that has ended.
  void forget(SessionId session) {
    const auto addressed = [session](const Command& command) {
      const auto* grant = std::get_if<Grant>(&command);
      const auto* revoke = std::get_if<Revoke>(&command);
      return (grant != nullptr && grant->session == session) ||
             (revoke != nullptr && revoke->session == session);
    };
    const auto begin = waiting_.begin() + static_cast<std::ptrdiff_t>(next_);
    waiting_.erase(std::remove_if(begin, waiting_.end(), addressed), waiting_.end());
    if (next_ < waiting_.size()) return;
    waiting_.clear();
    next_ = 0;
  }

 private:
  CommandBuffer* buffer_ = nullptr;
  std::vector<Command> waiting_;
  std::size_t next_ = 0;
};

}  // namespace penstock
