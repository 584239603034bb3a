// SPDX-License-Identifier: Apache-2.0
// What happens next, and what the service asks of the core.
#include <algorithm>

#include "tests/sim/simulation.hpp"

namespace penstock::sim {

void Simulation::act() {
  const std::uint64_t die = random_.below(100);
  if (die < 30) {
    for (std::uint32_t answer = 0; answer < scale_; ++answer) answer_device();
    return;
  }
  if (die < 34) return open_or_close();
  if (die < 36) return request_of_service();
  if (die < 37) return lose_writer();
  if (die < 42) {
    now_ += random_.one_in(20) ? std::chrono::seconds(31) : Nanoseconds(random_.below(600'000'000));
    const auto due = core_.next_deadline();
    if (due && *due <= now_) feed(Tick{});
    return;
  }
  if (die < 60) return request();
  if (clients_.empty()) return open_client();
  const auto client = any_of(clients_);
  if (random_.one_in(client->second.silent ? 30 : 60)) client->second.silent = !client->second.silent;
  if (!client->second.silent) client_acts(client->first, client->second);
}

void Simulation::lose_writer() {
  if (!random_.one_in(10)) return;
  const std::optional<Event> too_late = device_.lose_writer();
  feed(WriterLost{});
  if (too_late) feed(*too_late);
}

void Simulation::request() {
  if (clients_.empty()) return open_client();
  const auto client = any_of(clients_);
  if (client->second.attached.empty() || client->second.silent) return;
  const TableOpened& table = tables_.at(any_of(client->second.attached)->first);
  const auto first = static_cast<std::uint32_t>(random_.below(table.pages));
  const auto count =
      static_cast<std::uint32_t>(random_.between(1, random_.one_in(3) ? table.pages - first : 1));
  acknowledge(client->first, client->second);
  const Ticket ticket{++last_ticket_};
  Request& made = requests_[ticket];
  made = {.kind = RequestKind::grant,
          .session = client->first,
          .first = {table.table, first},
          .count = count,
          .step = step_};
  if (table.kind == TableKind::overlay) {
    made.kind = RequestKind::make_private;
    return feed(MakePrivate{
        .ticket = ticket, .session = client->first, .table = table.table, .first = first, .count = count});
  }
  if (random_.one_in(4)) {
    made.kind = RequestKind::prefetch;
    made.session = {};
    return feed(Prefetch{.ticket = ticket, .table = table.table, .first = first, .count = count});
  }
  feed(Fault{
      .ticket = ticket, .session = client->first, .table = table.table, .first = first, .count = count});
}

void Simulation::request_of_service() {
  const Ticket ticket{++last_ticket_};
  const auto frames = static_cast<std::uint32_t>(random_.below(14)) * scale_;
  switch (random_.below(6)) {
    case 0:
      if (!requests_.empty()) feed(Cancel{.ticket = any_of(requests_)->first});
      return;
    case 1: return set_budget(ticket, frames);
    case 2:
      if (!tables_.empty()) feed(Prioritize{.table = any_of(tables_)->first});
      return;
    case 3:
      if (clients_.empty() || clients_.begin()->second.attached.empty()) return;
      return feed(SetCutoff{.session = clients_.begin()->first,
                            .table = clients_.begin()->second.attached.begin()->first,
                            .pages = frames * 2});
    case 4:
      if (tables_.empty()) return;
      return feed(SetSourcePlace{.table = any_of(tables_)->first,
                                 .place = static_cast<SourcePlace>(random_.below(5))});
    default: return request_evictions(ticket, random_.one_in(2) ? frames : 0xffffffff);
  }
}

void Simulation::set_budget(Ticket ticket, std::uint32_t frames) {
  requests_[ticket] = {.kind = RequestKind::budget};
  budget_ = frames;
  budget_ceiling_ = more_ ? std::max(budget_ceiling_, frames) : frames;
  feed(SetBudget{.ticket = ticket, .frames = frames});
}

void Simulation::request_evictions(Ticket ticket, std::uint32_t frames) {
  const bool any_table = random_.one_in(2);
  const TableId table = tables_.empty() ? TableId{} : any_of(tables_)->first;
  requests_[ticket] = {.kind = RequestKind::evict,
                       .first = {.table = table, .index = 0},
                       .count = frames,
                       .any_table = any_table};
  feed(EvictRequest{.ticket = ticket, .any_table = any_table, .table = table, .frames = frames});
}

}  // namespace penstock::sim
