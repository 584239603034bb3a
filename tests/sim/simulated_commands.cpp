// SPDX-License-Identifier: Apache-2.0
// What the core says.
#include "tests/sim/rules.hpp"
#include "tests/sim/simulation.hpp"

namespace penstock::sim {

void Simulation::obey(const Command& command) {
  if (const auto* grant = std::get_if<Grant>(&command)) {
    take_grant(*grant);
  } else if (const auto* revoke = std::get_if<Revoke>(&command)) {
    take_revoke(*revoke);
  } else if (const auto* complete = std::get_if<Complete>(&command)) {
    take_complete(*complete);
  } else if (const auto* changed = std::get_if<PageChanged>(&command)) {
    take_change(*changed);
  } else if (const auto* evicted = std::get_if<Evicted>(&command)) {
    if (!evicting_.contains(evicted->page)) check_eviction(evicted->page, evicted->reason);
  } else if (const auto* stuck = std::get_if<SessionStuck>(&command)) {
    const auto client = clients_.find(stuck->session);
    if (client == clients_.end()) return;
    client->second.stuck = stuck->stuck;
    must(Rule::protocol, !stuck->stuck || !client->second.inbox.empty() || lagging_,
         "a client that has read all and answered all is not stuck");
  } else if (const auto* create = std::get_if<CreateFrame>(&command)) {
    device_.obey(*create);
    // P1: a load starts with the demand for its frame.
    must(Rule::budget, device_.used() <= budget_ceiling_, "used <= budget when a load starts");
  } else if (const auto* load = std::get_if<Load>(&command)) {
    device_.obey(*load);
  } else if (const auto* copy = std::get_if<CopyFrame>(&command)) {
    device_.obey(*copy);
  } else if (const auto* cancel = std::get_if<CancelLoad>(&command)) {
    device_.obey(*cancel);
  } else if (const auto* destroy = std::get_if<DestroyFrame>(&command)) {
    obey_destroy(*destroy);
  }
}

// P2: also a page that is granted and not pinned is not taken before the client has answered.
void Simulation::obey_destroy(const DestroyFrame& destroy) {
  const std::optional<PageKey> page = device_.frame(destroy.frame).page;
  must(Rule::conservation, page.has_value(), "a frame is destroyed once");
  for (const auto& [id, client] : clients_) {
    must(Rule::pins, !client.pinned.contains(*page), "a pinned page is not taken");
    must(Rule::pins, !has(client, *page), "a page is not taken before its client has given it back");
  }
  written_.erase(*page);
  device_.obey(destroy);
}

void Simulation::take_revoke(const Revoke& revoke) {
  const auto client = clients_.find(revoke.session);
  const bool known = client != clients_.end() && client->second.attached.contains(revoke.page.table);
  must(Rule::closing, known || lagging_, "nothing is asked of a session that has closed or detached");
  if (!known) return;
  const bool current = has(client->second, revoke.page) && generations_.at(revoke.page) == revoke.generation;
  must(Rule::protocol, current || lagging_, "a revoke names a page that the client has, and its generation");
  client->second.asked[revoke.page] = now_;
  client->second.inbox.emplace_back(revoke);
}

// P0: a page that comes in anew has a new generation.
void Simulation::take_change(const PageChanged& change) {
  const bool is_evicting = change.residency == Residency::evicting;
  if (is_evicting) check_eviction(change.page, std::nullopt);
  Generation& newest = generations_[change.page];
  const bool grows = change.residency == Residency::loading;
  must(Rule::protocol, grows ? change.generation > newest : change.generation >= newest,
       "generations increase");
  newest = change.generation;
  residency_[change.page] = change.residency;
  if (is_evicting) {
    evicting_.insert(change.page);
  } else {
    evicting_.erase(change.page);
  }
}

void Simulation::take_grant(const Grant& grant) {
  const auto found = clients_.find(grant.session);
  must(Rule::closing, found != clients_.end() || lagging_, "nothing is granted to a closed session");
  if (found == clients_.end()) return;
  Client& client = found->second;
  const bool attached = client.attached.contains(grant.page.table);
  must(Rule::closing, attached || lagging_, "nothing is granted of a table that is not attached");
  must(Rule::protocol, !has(client, grant.page), "a page that the client has is not granted again");
  if (attached) check_grant(grant);
  if (client.incoming.number == 0) {
    must(Rule::protocol, client.open_batch == 0, "one batch is unacknowledged at a time");
    client.incoming.number = grant.batch;
  }
  must(Rule::protocol, client.incoming.number == grant.batch, "the grants of a batch come in a row");
  if (attached) client.incoming.grants.push_back(grant);
  must(Rule::protocol, client.incoming.grants.size() <= grant_batch_pages, "a batch is bounded");
  if (!grant.last) return;
  client.open_batch = grant.batch;
  client.inbox.emplace_back(std::move(client.incoming));
  client.incoming = {};
}

// P3: a ticket that has completed is forgotten here, so a second answer finds nothing.
void Simulation::take_complete(const Complete& complete) {
  const auto found = requests_.find(complete.ticket);
  must(Rule::tickets, found != requests_.end(), "a ticket completes once");
  const Request request = found->second;
  requests_.erase(found);
  ++completed_;
  const auto client = clients_.find(request.session);
  if (complete.result == TicketResult::done && client != clients_.end()) check_done(request, client->second);
}

}  // namespace penstock::sim
