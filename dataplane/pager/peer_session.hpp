// SPDX-License-Identifier: Apache-2.0
// One client on one device: its socket, the tables that it may name, and the service's own record of what was granted
// to it. Dataplane thread.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "dataplane/base/ids.hpp"
#include "dataplane/core/pager_events.hpp"
#include "dataplane/pager/outbox.hpp"
#include "dataplane/pager/peer_port.hpp"
#include "dataplane/pager/shared_words.hpp"

namespace penstock {

struct Attachment {
  TableId table{};
  TableNumber number{};  // What the client calls it.
  TableKind kind = TableKind::file;
  TableId origin{};  // Overlay: the shared table that it overrides.
  std::uint32_t pages = 0;
  std::shared_ptr<const PinWords> pins;  // Null: no page of it counts as pinned.
  std::vector<Generation> granted;       // By page; 0 = not granted now.
};

class PeerSession {
 public:
  PeerSession(SessionId id, std::unique_ptr<PeerPort> port, FrameOwner& frames);

  SessionId id() const { return id_; }
  PeerPort& port() { return *port_; }
  Outbox& outbox() { return outbox_; }

  void attach(Attachment attachment);
  void detach(TableId table);
  Attachment* find(TableId table);
  Attachment* find(TableNumber number);
  Attachment* overlay_of(TableId shared);
  // It has or had a table of this number. Numbers only grow, so a message about a detached one is late, not wrong.
  bool had(TableNumber number) const { return raw(number) != 0 && number <= last_number_; }
  const std::vector<Attachment>& attachments() const { return attachments_; }

  void record_end(PageKey page, Generation generation);

  // Requests that are not completed yet.
  std::uint32_t open_requests = 0;
  // Hang-up or violation: nothing is read from it any more, and the service was told.
  bool gone = false;
  bool watched_for_writing = false;

 private:
  void bound_queue();

  SessionId id_;
  std::unique_ptr<PeerPort> port_;
  Outbox outbox_;
  std::vector<Attachment> attachments_;
  TableNumber last_number_{};
};

}  // namespace penstock
