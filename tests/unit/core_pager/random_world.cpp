// SPDX-License-Identifier: Apache-2.0
// What the core says, and what it must not say.
#include "tests/unit/core_pager/random_world.hpp"

#include <memory>

#include "dataplane/base/check.hpp"
#include "dataplane/core/simple_eviction.hpp"

namespace penstock::test {

RandomWorld::RandomWorld(std::uint64_t seed, bool large)
    : random_(seed),
      scale_(large ? 30 : 1),
      budget_(static_cast<std::uint32_t>(random_.between(1, 12)) * scale_),
      core_({.budget_frames = budget_}, std::make_unique<SimpleEviction>()),
      buffer_(command_buffer_min) {}

void RandomWorld::feed(const Event& event) {
  more_ = core_.step(event, now_, buffer_);
  const std::vector<Command> commands = buffer_.commands();
  buffer_.clear();
  for (const Command& command : commands) obey(command);
  core_.verify();
  // Sometimes something else happens before the core may go on.
  if (more_ && !random_.one_in(8)) feed(Continue{});
}

void RandomWorld::obey(const Command& command) {
  if (const auto* grant = std::get_if<Grant>(&command)) {
    take_grant(*grant);
  } else if (const auto* revoke = std::get_if<Revoke>(&command)) {
    const auto client = clients_.find(revoke->session);
    CHECK(client != clients_.end());
    CHECK(has(client->second, revoke->page) && generations_.at(revoke->page) == revoke->generation);
    client->second.inbox.emplace_back(*revoke);
  } else if (const auto* complete = std::get_if<Complete>(&command)) {
    take_complete(*complete);
  } else if (const auto* changed = std::get_if<PageChanged>(&command)) {
    Generation& newest = generations_[changed->page];
    const bool grows = changed->residency == Residency::loading;
    CHECK(grows ? changed->generation > newest : changed->generation >= newest);
    newest = changed->generation;
  } else {
    obey_frame(command);
  }
}

void RandomWorld::obey_frame(const Command& command) {
  if (const auto* create = std::get_if<CreateFrame>(&command)) {
    creations_.push_back(*create);
    CHECK(creations_.size() + frames_.size() <= budget_);
  } else if (const auto* load = std::get_if<Load>(&command)) {
    CHECK(frames_.at(load->frame) == load->page);
    CHECK(filled_.insert(load->frame).second);
    loads_.push_back(*load);
  } else if (const auto* copy = std::get_if<CopyFrame>(&command)) {
    CHECK(frames_.at(copy->to) == copy->page && filled_.insert(copy->to).second);
    CHECK(frames_.at(copy->from).index == copy->page.index);
    fills_.push_back(*copy);
  } else if (const auto* destroy = std::get_if<DestroyFrame>(&command)) {
    const PageKey page = frames_.at(destroy->frame);
    for (const auto& [id, client] : clients_) CHECK(!has(client, page));
    for (const Load& open : loads_) CHECK(open.frame != destroy->frame);
    for (const CopyFrame& open : fills_) CHECK(open.to != destroy->frame && open.from != destroy->frame);
    frames_.erase(destroy->frame);
    filled_.erase(destroy->frame);
  }
}

// It has been granted the page and has not given it back.
bool RandomWorld::has(const Client& client, PageKey page) const {
  if (client.mapped.contains(page)) return true;
  const auto in = [page](const Batch& batch) {
    for (const Grant& grant : batch.grants) {
      if (grant.page == page) return true;
    }
    return false;
  };
  for (const auto& message : client.inbox) {
    const Batch* batch = std::get_if<Batch>(&message);
    if (batch != nullptr && in(*batch)) return true;
  }
  return in(client.incoming);
}

void RandomWorld::take_grant(const Grant& grant) {
  const auto found = clients_.find(grant.session);
  if (found == clients_.end()) return;
  Client& client = found->second;
  CHECK(!has(client, grant.page));
  CHECK(frames_.at(grant.frame) == grant.page);
  CHECK(generations_.at(grant.page) == grant.generation);
  CHECK(grant.writable == (tables_.at(grant.page.table).owner == grant.session));
  if (client.incoming.number == 0) {
    CHECK(client.open_batch == 0);
    client.incoming.number = grant.batch;
  }
  CHECK(client.incoming.number == grant.batch);
  if (client.attached.contains(grant.page.table)) client.incoming.grants.push_back(grant);
  CHECK(client.incoming.grants.size() <= grant_batch_pages);
  if (!grant.last) return;
  client.open_batch = grant.batch;
  client.inbox.emplace_back(std::move(client.incoming));
  client.incoming = {};
}

void RandomWorld::take_complete(const Complete& complete) {
  const auto found = requests_.find(complete.ticket);
  CHECK(found != requests_.end());
  const Request request = found->second;
  requests_.erase(found);
  ++completed_;
  const auto client = clients_.find(request.session);
  if (!request.grants || complete.result != TicketResult::done || client == clients_.end()) return;
  for (std::uint32_t offset = 0; offset < request.count; ++offset) {
    const PageKey page{.table = request.first.table, .index = request.first.index + offset};
    const auto ended = client->second.ended.find(page);
    CHECK(has(client->second, page) ||
          (ended != client->second.ended.end() && ended->second >= request.step));
  }
}

void RandomWorld::run(int steps) {
  for (int step = 0; step < steps; ++step) {
    ++step_;
    act();
  }
}

void RandomWorld::everyone_answers() {
  bool open = true;
  while (open) {
    open = !creations_.empty() || !loads_.empty() || !fills_.empty();
    for (int answer = 0; answer < 20; ++answer) answer_device();
    for (auto& [id, client] : clients_) {
      while (!client.inbox.empty()) {
        open = true;
        handle_next(id, client);
      }
      while (!client.put_off.empty()) {
        open = true;
        const PageKey page = client.put_off.back().page;
        client.put_off.pop_back();
        client.pinned.erase(page);
        give_back(id, client, page, false);
      }
    }
    while (more_) feed(Continue{});
  }
  CHECK(requests_.empty());
}

void RandomWorld::fall_silent() {
  for (int round = 0; round < 2000 && !requests_.empty(); ++round) {
    while (!creations_.empty() || !loads_.empty() || !fills_.empty()) answer_device();
    now_ += std::chrono::seconds(40);
    feed(Tick{});
    if (more_) feed(Continue{});
  }
  CHECK(requests_.empty());
}

void RandomWorld::wind_down() {
  while (!clients_.empty()) close_client(clients_.begin()->first);
  CHECK(core_.counts().private_frames <= creations_.size() + loads_.size() + fills_.size());
  while (!tables_.empty()) {
    const TableId table = tables_.begin()->first;
    tables_.erase(tables_.begin());
    feed(TableClosed{.table = table});
  }
  while (!creations_.empty() || !loads_.empty() || !fills_.empty()) answer_device();
  while (more_) feed(Continue{});
  while (!requests_.empty()) {  // Budgets that nothing can bring about any more.
    feed(Cancel{.ticket = requests_.begin()->first});
  }
  CHECK(core_.counts().used_frames == 0 && frames_.empty());
  CHECK(!core_.next_deadline().has_value());
}

}  // namespace penstock::test
