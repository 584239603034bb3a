// SPDX-License-Identifier: Apache-2.0
#include "dataplane/pager/request_book.hpp"

#include "dataplane/base/check.hpp"

namespace penstock {

Ticket RequestBook::open(const OpenRequest& request) {
  std::uint32_t place = static_cast<std::uint32_t>(places_.size());
  if (free_.empty()) {
    CHECK(place >> place_bits == 0);
    places_.emplace_back();
    free_.reserve(places_.size());
  } else {
    place = free_.back();
    free_.pop_back();
  }
  const Ticket ticket{++serial_ << place_bits | place};
  places_[place] = request;
  places_[place].ticket = ticket;
  return ticket;
}

const OpenRequest* RequestBook::find(Ticket ticket) const {
  const std::uint64_t place = raw(ticket) & ((1u << place_bits) - 1);
  if (place >= places_.size() || places_[place].ticket != ticket || raw(ticket) == 0) return nullptr;
  return &places_[place];
}

void RequestBook::close(Ticket ticket) {
  CHECK(find(ticket) != nullptr);
  const std::uint32_t place = static_cast<std::uint32_t>(raw(ticket) & ((1u << place_bits) - 1));
  places_[place].ticket = Ticket{};
  free_.push_back(place);
}

std::optional<Ticket> RequestBook::find(SessionId session, std::uint64_t peer_request) const {
  for (const OpenRequest& request : places_) {
    if (raw(request.ticket) == 0 || !request.from_peer()) continue;
    if (request.session == session && request.peer_request == peer_request) return request.ticket;
  }
  return std::nullopt;
}

void RequestBook::collect(std::optional<SessionId> session, std::vector<Ticket>& tickets) const {
  for (const OpenRequest& request : places_) {
    if (raw(request.ticket) == 0) continue;
    if (!session || (request.from_peer() && request.session == *session)) tickets.push_back(request.ticket);
  }
}

}  // namespace penstock
