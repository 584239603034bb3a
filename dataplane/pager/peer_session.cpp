// SPDX-License-Identifier: Apache-2.0
#include "dataplane/pager/peer_session.hpp"

#include <algorithm>
#include <utility>

#include "dataplane/base/check.hpp"

namespace penstock {
namespace {

// Completions and refusals that a client may leave unread, beside one revoke for each page that it may map.
constexpr std::size_t queue_messages = 1024;

}  // namespace

PeerSession::PeerSession(SessionId id, std::unique_ptr<PeerPort> port, FrameOwner& frames)
    : id_(id), port_(std::move(port)), outbox_(*port_, frames) {
  bound_queue();
}

void PeerSession::attach(Attachment attachment) {
  CHECK(find(attachment.table) == nullptr && attachment.number > last_number_);
  last_number_ = attachment.number;
  attachment.granted.assign(attachment.pages, Generation{});
  attachments_.push_back(std::move(attachment));
  bound_queue();
}

void PeerSession::detach(TableId table) {
  const Attachment* attachment = find(table);
  if (attachment == nullptr) return;
  outbox_.forget(attachment->number);
  std::erase_if(attachments_, [table](const Attachment& each) { return each.table == table; });
  bound_queue();
}

Attachment* PeerSession::find(TableId table) {
  const auto found = std::find_if(attachments_.begin(), attachments_.end(),
                                  [table](const Attachment& each) { return each.table == table; });
  return found == attachments_.end() ? nullptr : &*found;
}

Attachment* PeerSession::find(TableNumber number) {
  const auto found = std::find_if(attachments_.begin(), attachments_.end(),
                                  [number](const Attachment& each) { return each.number == number; });
  return found == attachments_.end() ? nullptr : &*found;
}

Attachment* PeerSession::overlay_of(TableId shared) {
  const auto found = std::find_if(attachments_.begin(), attachments_.end(), [shared](const Attachment& each) {
    return each.kind == TableKind::overlay && each.origin == shared;
  });
  return found == attachments_.end() ? nullptr : &*found;
}

void PeerSession::record_end(PageKey page, Generation generation) {
  Attachment* attachment = find(page.table);
  if (attachment == nullptr || page.index >= attachment->pages) return;
  if (attachment->granted[page.index] == generation) attachment->granted[page.index] = Generation{};
}

void PeerSession::bound_queue() {
  std::size_t pages = 0;
  for (const Attachment& attachment : attachments_) pages += attachment.pages;
  outbox_.set_queue_max(queue_messages + pages);
}

}  // namespace penstock
