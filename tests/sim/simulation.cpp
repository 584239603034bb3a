// SPDX-License-Identifier: Apache-2.0
// Steps, and the ends of a run.
#include "tests/sim/simulation.hpp"

#include <memory>

#include "dataplane/core/simple_eviction.hpp"
#include "tests/sim/rules.hpp"

namespace penstock::sim {
namespace {

constexpr int rounds_max = 2000;

}  // namespace

Simulation::Simulation(std::uint64_t seed, SimulationOptions options)
    : random_(seed),
      options_(options),
      scale_(options.large ? 30 : 1),
      budget_(static_cast<std::uint32_t>(random_.between(1, 12)) * scale_),
      core_({.budget_frames = budget_}, std::make_unique<SimpleEviction>()),
      buffer_(command_buffer_min),
      budget_ceiling_(budget_) {}

void Simulation::feed(const Event& event) {
  ++fed_;
  if (more_ && !std::holds_alternative<Continue>(event)) lagging_ = true;
  more_ = core_.step(event, now_, buffer_);
  const std::vector<Command> commands = buffer_.commands();
  buffer_.clear();
  for (const Command& command : commands) obey(command);
  if (!more_) {
    lagging_ = false;
    budget_ceiling_ = budget_;
  }
  if (options_.verify_core) core_.verify();
  check_step();
  // Sometimes something else happens before the core may go on.
  if (more_ && !random_.one_in(8)) feed(Continue{});
}

void Simulation::go_on() {
  while (more_) feed(Continue{});
}

void Simulation::answer_device() {
  const std::optional<Event> answer = device_.answer(random_);
  if (!answer) return;
  if (std::holds_alternative<NotCreated>(*answer)) {
    refused_at_ = device_.used();
    refused_until_ = now_ + PagerCoreOptions{}.revoke_deadline;
  }
  feed(*answer);
}

void Simulation::run(int steps) {
  for (int step = 0; step < steps; ++step) {
    ++step_;
    act();
  }
}

void Simulation::everyone_answers() {
  bool open = true;
  for (int round = 0; open; ++round) {
    must(Rule::progress, round < rounds_max, "what is open comes to an end when everyone answers");
    open = !device_.idle();
    for (int answer = 0; answer < 20; ++answer) answer_device();
    for (auto& [id, client] : clients_) {
      while (!client.inbox.empty()) {
        open = true;
        handle_next(id, client);
      }
      while (!client.put_off.empty()) {
        open = true;
        acknowledge(id, client);
        const PageKey page = client.put_off.back().page;
        client.put_off.pop_back();
        client.pinned.erase(page);
        give_back(id, client, page, false);
      }
    }
    go_on();
  }
  must(Rule::progress, requests_.empty(), "every ticket completes when everyone answers");
}

void Simulation::fall_silent() {
  for (int round = 0; round < rounds_max && !requests_.empty(); ++round) {
    while (!device_.idle()) answer_device();
    now_ += std::chrono::seconds(40);
    feed(Tick{});
    go_on();
  }
  must(Rule::progress, requests_.empty(), "every ticket completes when clients fall silent");
}

void Simulation::wind_down() {
  while (!clients_.empty()) close_client(clients_.begin()->first);
  while (!tables_.empty()) {
    const TableId table = tables_.begin()->first;
    tables_.erase(tables_.begin());
    feed(TableClosed{.table = table});
  }
  while (!device_.idle()) answer_device();
  go_on();
  while (!requests_.empty()) {  // Budgets that nothing can bring about any more.
    const std::size_t open = requests_.size();
    feed(Cancel{.ticket = requests_.begin()->first});
    go_on();
    must(Rule::tickets, requests_.size() < open, "a ticket that is cancelled completes");
  }
  must(Rule::conservation, core_.counts().used_frames == 0 && device_.live() == 0,
       "no frame outlives all tables");
  must(Rule::closing, !core_.next_deadline().has_value(), "nothing is waited for when all have gone");
}

}  // namespace penstock::sim
