// SPDX-License-Identifier: Apache-2.0
// What clients do: they read their inbox in order, pin, write, answer, put off, release and talk nonsense.
#include <algorithm>
#include <utility>

#include "tests/sim/simulation.hpp"

namespace penstock::sim {

void Simulation::client_acts(SessionId id, Client& client) {
  const std::uint64_t die = random_.below(20);
  if (die < 12 && !client.inbox.empty()) {
    for (std::uint32_t message = 0; message < scale_ && !client.inbox.empty(); ++message)
      handle_next(id, client);
    return;
  }
  if (die < 14) return random_.one_in(2) ? unpin_one(id, client) : write_one(id, client);
  if (die < 15) return say_nonsense(id, client);
  if (die < 17 && !client.put_off.empty()) {
    const auto place = any_of(client.put_off);
    const PageKey page = place->page;
    if (client.pinned.contains(page)) return;
    acknowledge(id, client);
    client.put_off.erase(place);
    return give_back(id, client, page, false);
  }
  if (client.mapped.empty()) return;
  const PageKey page = any_of(client.mapped)->first;
  if (die == 18) {
    if (!client.pinned.contains(page)) client.pinned[page] = false;
  } else if (die == 19 && !client.pinned.contains(page)) {
    acknowledge(id, client);
    std::erase_if(client.put_off, [page](const Revoke& revoke) { return revoke.page == page; });
    give_back(id, client, page, true);
  }
}

void Simulation::handle_next(SessionId id, Client& client) {
  const std::variant<Batch, Revoke> message = std::move(client.inbox.front());
  client.inbox.pop_front();
  std::visit([&](const auto& content) { handle(id, client, content); }, message);
}

void Simulation::handle(SessionId id, Client& client, const Batch& batch) {
  for (const Grant& grant : batch.grants) {
    if (!client.attached.contains(grant.page.table)) continue;  // Closed meanwhile.
    check_grant(grant);                                         // Also true later, when the client maps it.
    client.mapped[grant.page] = {.generation = grant.generation, .frame = grant.frame};
    if (random_.one_in(3)) client.pinned[grant.page] = false;
  }
  client.owed = batch.number;
  const bool awaited =
      std::ranges::any_of(requests_, [id](const auto& entry) { return entry.second.session == id; });
  if (awaited || random_.one_in(2)) acknowledge(id, client);
}

// Also before a client forgets what its next message is about: the core may go by the acknowledgement at once.
void Simulation::acknowledge(SessionId id, Client& client) {
  if (client.owed == 0) return;
  client.open_batch = 0;
  feed(Granted{.session = id, .batch = std::exchange(client.owed, 0)});
}

void Simulation::say(SessionId id, Client& client, const Event& message) {
  acknowledge(id, client);
  feed(message);
}

void Simulation::handle(SessionId id, Client& client, const Revoke& revoke) {
  const auto mapped = client.mapped.find(revoke.page);
  if (mapped == client.mapped.end() || mapped->second.generation != revoke.generation) return;
  const auto pinned = client.pinned.find(revoke.page);
  if (pinned != client.pinned.end()) {
    pinned->second = true;
    return say(id, client, Busy{.session = id, .page = revoke.page, .generation = revoke.generation});
  }
  if (client.attached.at(revoke.page.table) == RevokeMode::cooperative && random_.one_in(2)) {
    client.put_off.push_back(revoke);
    return say(id, client,
               Busy{.session = id, .page = revoke.page, .generation = revoke.generation, .later = true});
  }
  give_back(id, client, revoke.page, false);
}

void Simulation::give_back(SessionId id, Client& client, PageKey page, bool release) {
  acknowledge(id, client);
  const auto mapped = client.mapped.find(page);  // REQUIRES: there.
  const Generation generation = mapped->second.generation;
  client.mapped.erase(mapped);
  client.asked.erase(page);
  client.ended[page] = step_;
  if (release) {
    return say(
        id, client,
        Release{.session = id, .page = page, .generation = generation, .drop_if_last = random_.one_in(2)});
  }
  say(id, client, Acked{.session = id, .page = page, .generation = generation});
}

void Simulation::unpin_one(SessionId id, Client& client) {
  if (client.pinned.empty()) return;
  const auto place = any_of(client.pinned);
  const auto [page, owes_idle] = *place;
  client.pinned.erase(place);
  if (owes_idle) say(id, client, Idle{.session = id, .page = page});
}

void Simulation::write_one(SessionId id, const Client& client) {
  if (client.pinned.empty()) return;
  const PageKey page = any_of(client.pinned)->first;
  if (tables_.at(page.table).owner != id) return;
  const std::uint64_t bytes = random_.next();
  written_[page] = bytes;
  device_.write(client.mapped.at(page).frame, bytes);
}

// Answers that name no grant of the record: ignored, whatever they say.
void Simulation::say_nonsense(SessionId id, Client& client) {
  if (client.attached.empty()) return;
  PageKey page{.table = any_of(client.attached)->first,
               .index = static_cast<std::uint32_t>(random_.below(30 * scale_))};
  if (!client.mapped.empty() && random_.one_in(2)) page = any_of(client.mapped)->first;
  const Generation wrong{random_.one_in(2) ? raw(generations_[page]) + 1 : raw(generations_[page]) - 1};
  switch (random_.below(4)) {
    case 0: return feed(Acked{.session = id, .page = page, .generation = wrong});
    case 1: return feed(Busy{.session = id, .page = page, .generation = wrong, .later = random_.one_in(2)});
    case 2: return feed(Release{.session = id, .page = page, .generation = wrong});
    default:
      return feed(Granted{.session = id, .batch = static_cast<std::uint32_t>(random_.next()) | 1u << 31});
  }
}

}  // namespace penstock::sim
