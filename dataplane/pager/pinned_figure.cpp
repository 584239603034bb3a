// SPDX-License-Identifier: Apache-2.0
#include "dataplane/pager/pinned_figure.hpp"

namespace penstock {

std::uint64_t PinnedFigure::advance(const Sessions& sessions, std::uint32_t pages_max) {
  if (at_ == tables_.end()) begin_round(sessions);
  while (at_ != tables_.end()) {
    find_holders(sessions, at_->first);
    for (; next_page_ < at_->second; ++next_page_) {
      if (pages_max-- == 0) return complete_;
      if (pinned(next_page_)) ++counting_;
    }
    next_page_ = 0;
    ++at_;
  }
  complete_ = counting_;
  return complete_;
}

void PinnedFigure::begin_round(const Sessions& sessions) {
  tables_.clear();
  counting_ = 0;
  next_page_ = 0;
  for (const auto& [id, session] : sessions) {
    for (const Attachment& attachment : session->attachments()) tables_[attachment.table] = attachment.pages;
  }
  at_ = tables_.begin();
}

void PinnedFigure::find_holders(const Sessions& sessions, TableId table) {
  holders_.clear();
  for (const auto& [id, session] : sessions) {
    const Attachment* attachment = session->find(table);
    if (attachment != nullptr && attachment->pins) holders_.push_back(attachment);
  }
}

bool PinnedFigure::pinned(std::uint32_t page) const {
  for (const Attachment* holder : holders_) {
    if (page >= holder->pages || page >= holder->pins->pages()) continue;
    if (raw(holder->granted[page]) != 0 && holder->pins->count(page) > 0) return true;
  }
  return false;
}

}  // namespace penstock
