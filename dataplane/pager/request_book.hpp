// SPDX-License-Identifier: Apache-2.0
// RequestBook: which request of a client or of the service each ticket of the core stands for.
//
// A ticket is a place in a pool and a serial number, so that a late answer to an old one finds nothing, and a lookup
// neither hashes nor allocates.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "dataplane/base/ids.hpp"
#include "dataplane/core/pager_events.hpp"
#include "dataplane/pager/load_pipeline.hpp"
#include "dataplane/pager/mail.hpp"

namespace penstock {

struct OpenRequest {
  enum class Kind : std::uint8_t { fault, prefetch, make_private, load_table, evict, budget };

  Kind kind = Kind::fault;
  SessionId session{};             // Of a client's request.
  std::uint64_t peer_request = 0;  // Its own number.
  RequestId service_request{};     // Of the service's request; 0 = no answer wanted.
  TableId table{};
  std::uint32_t first = 0;
  Nanoseconds received{};
  TableReads reads_before{};  // load_table: what the table had read when the request came.
  Ticket ticket{};

  bool from_peer() const { return kind <= Kind::make_private; }
};

class RequestBook {
 public:
  Ticket open(const OpenRequest& request);
  // Null when the ticket is not open. Valid until the next open or close.
  const OpenRequest* find(Ticket ticket) const;
  void close(Ticket ticket);
  std::optional<Ticket> find(SessionId session, std::uint64_t peer_request) const;
  // The tickets of one session's requests, or of all.
  void collect(std::optional<SessionId> session, std::vector<Ticket>& tickets) const;
  std::size_t size() const { return places_.size() - free_.size(); }

 private:
  static constexpr int place_bits = 24;

  std::deque<OpenRequest> places_;
  std::vector<std::uint32_t> free_;
  std::uint64_t serial_ = 0;
};

}  // namespace penstock
