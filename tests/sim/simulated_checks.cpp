// SPDX-License-Identifier: Apache-2.0
// The rules that need more than one look: pins, bytes, need, what a closed session leaves.
#include <algorithm>

#include "tests/sim/rules.hpp"
#include "tests/sim/simulation.hpp"

namespace penstock::sim {

// It has been granted the page and has not given it back.
bool Simulation::has(const Client& client, PageKey page) const {
  if (client.mapped.contains(page)) return true;
  const auto in = [page](const Batch& batch) {
    return std::ranges::any_of(batch.grants, [page](const Grant& grant) { return grant.page == page; });
  };
  for (const auto& message : client.inbox) {
    const Batch* batch = std::get_if<Batch>(&message);
    if (batch != nullptr && in(*batch)) return true;
  }
  return in(client.incoming);
}

// Shared pages: the file's. Private ones: what the owner wrote last, or how they began.
std::uint64_t Simulation::expected_bytes(PageKey page) const {
  const TableOpened& table = tables_.at(page.table);
  const auto written = written_.find(page);
  if (written != written_.end()) return written->second;
  if (table.kind == TableKind::anonymous) return 0;
  if (table.kind == TableKind::overlay) return file_bytes({.table = table.origin, .index = page.index});
  return file_bytes(page);
}

void Simulation::check_step() const {
  for (const auto& [id, client] : clients_) check_pins(client);
  device_.verify();
  if (more_) return;
  // P7: the core and the device agree on what there is.
  must(Rule::conservation, core_.counts().used_frames == device_.used(), "the core knows of each frame");
  // P8: a frame whose table has gone (private ones go with their session) is only there while in flight.
  device_.for_each_live([this](FrameId id, const SimulatedDevice::Frame& frame) {
    must(Rule::closing, tables_.contains(frame.page->table) || may_outlive_table(id, *frame.page),
         "a closed session or table leaves no frame");
  });
}

// It is filled, read by a copy, or kept for a copy whose frame is being created.
bool Simulation::may_outlive_table(FrameId id, PageKey page) const {
  if (device_.is_in_flight(id)) return true;
  return std::ranges::any_of(device_.creations(), [&](const CreateFrame& create) {
    const auto origin = origins_.find(create.page.table);
    return origin != origins_.end() && origin->second == page.table && create.page.index == page.index;
  });
}

// P2 and P4: a client that has pinned a page reads it at any time.
void Simulation::check_pins(const Client& client) const {
  for (const auto& [page, owes_idle] : client.pinned) {
    const SimulatedDevice::Frame& frame = device_.frame(client.mapped.at(page).frame);
    must(Rule::pins, frame.page == page, "the frame of a pinned page stays the page's");
    must(Rule::bytes, frame.bytes == expected_bytes(page), "a pinned page keeps its bytes");
  }
}

void Simulation::check_grant(const Grant& grant) const {
  const SimulatedDevice::Frame& frame = device_.frame(grant.frame);
  must(Rule::bytes, frame.page == grant.page, "a page is granted with its own frame");
  must(Rule::bytes, !frame.being_filled, "a page is granted when it is filled");
  must(Rule::bytes, frame.bytes == expected_bytes(grant.page), "a page is granted with its bytes");
  const TableOpened& table = tables_.at(grant.page.table);
  const bool is_filled = table.kind != TableKind::anonymous;
  must(Rule::bytes, !is_filled || frame.filled_for == grant.generation,
       "a frame is of the generation granted");
  must(Rule::protocol, generations_.at(grant.page) == grant.generation, "the newest generation is granted");
  must(Rule::protocol, grant.writable == (table.owner == grant.session),
       "private pages are writable, others not");
}

// P3: who is told `done` has had each page, unless it has given it back since.
void Simulation::check_done(const Request& request, const Client& client) const {
  if (request.kind != RequestKind::grant && request.kind != RequestKind::make_private) return;
  for (std::uint32_t offset = 0; offset < request.count; ++offset) {
    const PageKey page{.table = request.first.table, .index = request.first.index + offset};
    const auto ended = client.ended.find(page);
    must(Rule::tickets, has(client, page) || (ended != client.ended.end() && ended->second >= request.step),
         "a fault is done when all of its pages were granted");
  }
}

// P5: seen when a victim is chosen: told as `evicting`, or, when nobody maps it, as evicted.
void Simulation::check_eviction(PageKey page, std::optional<EvictReason> reason) const {
  if (lagging_) return;
  // The frame of a page that nobody maps has been destroyed just now.
  const std::uint32_t staying = device_.used() + (reason ? 1 : 0) - std::min(leaving(), device_.used());
  const bool over_budget = staying > budget_;
  const bool asked = std::ranges::any_of(requests_, [page](const auto& entry) {
    const Request& request = entry.second;
    return request.kind == RequestKind::evict && (request.any_table || request.first.table == page.table);
  });
  if (!reason) {
    must(Rule::need, over_budget || asked || is_demanded(staying), "an eviction starts for a need");
  } else if (*reason == EvictReason::budget) {
    must(Rule::need, over_budget, "the budget takes a frame when more than it are used");
  } else if (*reason == EvictReason::request) {
    must(Rule::need, asked, "an eviction on request has a request");
  } else if (*reason == EvictReason::fault || *reason == EvictReason::prefetch) {
    must(Rule::need, is_demanded(staying), "a page goes for pages that are wanted and have no frame");
  }
}

// The core doesn't wait for its answer: it is stuck, has answered `later`, or is past the deadline for that.
bool Simulation::is_slow(const Client& client, PageKey page) const {
  const auto of_page = [page](const Revoke& revoke) { return revoke.page == page; };
  if (client.stuck || std::ranges::any_of(client.put_off, of_page)) return true;
  const auto attached = client.attached.find(page.table);
  const auto asked = client.asked.find(page);
  return attached != client.attached.end() && attached->second == RevokeMode::cooperative &&
         asked != client.asked.end() && now_ - asked->second >= PagerCoreOptions{}.cooperative_deadline;
}

// Evictions that will end soon. A lower bound of what the core counts.
std::uint32_t Simulation::leaving() const {
  std::uint32_t leaving = 0;
  for (const PageKey page : evicting_) {
    const bool slow = std::ranges::any_of(
        clients_, [&](const auto& entry) { return has(entry.second, page) && is_slow(entry.second, page); });
    leaving += slow ? 0 : 1;
  }
  return leaving;
}

bool Simulation::is_demanded(std::uint32_t staying) const {
  const std::uint32_t limit = now_ < refused_until_ ? std::min(budget_, refused_at_) : budget_;
  return std::ranges::any_of(requests_, [&](const auto& entry) {
    const std::uint32_t wanted = missing(entry.second);
    return wanted > 0 && staying + wanted > limit;
  });
}

// Frames that the request still has to get.
std::uint32_t Simulation::missing(const Request& request) const {
  if (request.kind == RequestKind::evict || request.kind == RequestKind::budget) return 0;
  const auto needs_frame = [this](PageKey page) {
    const auto known = residency_.find(page);
    const bool is_in = known != residency_.end() &&
                       (known->second == Residency::resident || known->second == Residency::loading);
    return !is_in && !device_.is_creating(page);
  };
  const auto table = tables_.find(request.first.table);
  if (table == tables_.end()) return 0;
  std::uint32_t missing = 0;
  for (std::uint32_t offset = 0; offset < request.count; ++offset) {
    const std::uint32_t index = request.first.index + offset;
    missing += needs_frame({.table = request.first.table, .index = index}) ? 1 : 0;
    if (request.kind != RequestKind::make_private) continue;
    missing += needs_frame({.table = table->second.origin, .index = index}) ? 1 : 0;
  }
  return missing;
}

}  // namespace penstock::sim
