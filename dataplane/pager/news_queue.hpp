// SPDX-License-Identifier: Apache-2.0
// NewsQueue: the pager's way to the service thread. Answers are never lost: what the mailbox doesn't take waits here,
// bounded by the requests that are open. Decisions are for a log; what doesn't fit is dropped and counted.
#pragma once

#include <cstdint>
#include <deque>
#include <utility>

#include "dataplane/base/mailbox.hpp"
#include "dataplane/pager/mail.hpp"

namespace penstock {

class NewsQueue {
 public:
  explicit NewsQueue(Mailbox<PagerNews>& mailbox) : mailbox_(mailbox) {}

  void answer(PagerNews news) {
    waiting_.push_back(std::move(news));
    flush();
  }
  void log(PagerDecision decision) {
    if (!waiting_.empty() || !mailbox_.try_push(PagerNews(std::move(decision)))) ++decisions_lost_;
  }
  void flush() {
    while (!waiting_.empty() && mailbox_.try_push(std::move(waiting_.front()))) waiting_.pop_front();
  }
  bool waiting() const { return !waiting_.empty(); }
  std::uint64_t decisions_lost() const { return decisions_lost_; }

 private:
  Mailbox<PagerNews>& mailbox_;
  std::deque<PagerNews> waiting_;
  std::uint64_t decisions_lost_ = 0;
};

}  // namespace penstock
