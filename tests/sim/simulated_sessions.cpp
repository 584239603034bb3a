// SPDX-License-Identifier: Apache-2.0
// Sessions and tables come and go.
#include <algorithm>
#include <utility>

#include "tests/sim/rules.hpp"
#include "tests/sim/simulation.hpp"

namespace penstock::sim {

void Simulation::open_client() {
  if (clients_.size() >= 4) return;
  const SessionId id{++last_session_};
  clients_[id];
  feed(SessionOpened{.session = id, .private_frames_max = static_cast<std::uint32_t>(random_.below(5))});
}

// P8: what is left of it afterwards is seen in check_step() and when a command names it.
void Simulation::close_client(SessionId id) {
  if (!random_.one_in(4)) go_on();
  clients_.erase(id);
  std::erase_if(tables_, [id](const auto& entry) { return entry.second.owner == id; });
  feed(SessionClosed{.session = id});
  go_on();
  for (const auto& [ticket, request] : requests_) {
    must(Rule::closing, request.session != id, "a closed session leaves no ticket");
  }
}

void Simulation::open_or_close() {
  if (clients_.empty() || random_.one_in(5)) return open_client();
  const auto client = any_of(clients_);
  const SessionId id = client->first;
  if (random_.one_in(12)) return close_client(id);
  if (random_.one_in(6) && !client->second.attached.empty()) return detach(id, client->second);
  open_table(id, client->second);
}

// The client has unmapped all of it, and drops what is on its way.
void Simulation::detach(SessionId id, Client& client) {
  if (!random_.one_in(4)) go_on();
  const TableId table = any_of(client.attached)->first;
  client.attached.erase(table);
  const auto of_table = [table](const auto& entry) { return entry.first.table == table; };
  const auto of_grant = [table](const Grant& grant) { return grant.page.table == table; };
  const auto of_revoke = [table](const Revoke& revoke) { return revoke.page.table == table; };
  std::erase_if(client.mapped, of_table);
  std::erase_if(client.pinned, of_table);
  std::erase_if(client.asked, of_table);
  std::erase_if(client.put_off, of_revoke);
  std::erase_if(client.incoming.grants, of_grant);
  for (auto& message : client.inbox) {
    Batch* batch = std::get_if<Batch>(&message);
    if (batch != nullptr) std::erase_if(batch->grants, of_grant);
  }
  std::erase_if(client.inbox, [&of_revoke](const auto& message) {
    const Revoke* revoke = std::get_if<Revoke>(&message);
    return revoke != nullptr && of_revoke(*revoke);
  });
  feed(TableDetached{.session = id, .table = table});
  if (random_.one_in(2)) return;
  for (const auto& [other, with] : clients_) {
    if (with.attached.contains(table)) return;
  }
  tables_.erase(table);
  feed(TableClosed{.table = table});
}

void Simulation::open_table(SessionId id, Client& client) {
  const RevokeMode mode = random_.one_in(2) ? RevokeMode::agent : RevokeMode::cooperative;
  TableOpened opened{.table = TableId{++last_table_},
                     .kind = static_cast<TableKind>(random_.below(4)),
                     .pages = static_cast<std::uint32_t>(random_.between(1, 16)) * scale_,
                     .owner = {},
                     .origin = {}};
  const bool is_private = opened.kind == TableKind::anonymous || opened.kind == TableKind::overlay;
  if (is_private) opened.owner = id;
  if (opened.kind == TableKind::overlay) {
    if (client.attached.empty()) return;
    const TableOpened& origin = tables_.at(any_of(client.attached)->first);
    if (raw(origin.owner) != 0) return;
    opened.origin = origin.table;
    opened.pages = origin.pages;
    origins_[opened.table] = origin.table;
  }
  if (!is_private && tables_.size() >= 3) {
    for (const auto& [table, shared] : tables_) {
      if (raw(shared.owner) != 0 || client.attached.contains(table)) continue;
      client.attached[table] = mode;
      return feed(TableAttached{.session = id, .table = table, .mode = mode});
    }
    return;
  }
  if (tables_.size() >= 8) return;
  tables_[opened.table] = opened;
  feed(opened);
  client.attached[opened.table] = mode;
  feed(TableAttached{.session = id, .table = opened.table, .mode = mode});
}

}  // namespace penstock::sim
