// SPDX-License-Identifier: Apache-2.0
// What the device, the service and the clients do.
#include <utility>

#include "dataplane/base/check.hpp"
#include "tests/unit/core_pager/random_world.hpp"

namespace penstock::test {

void RandomWorld::act() {
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

void RandomWorld::answer_device() {
  if (!creations_.empty() && random_.one_in(2)) {
    const auto place = any_of(creations_);
    const CreateFrame create = *place;
    creations_.erase(place);
    if (random_.one_in(20)) return feed(NotCreated{.page = create.page});
    const FrameId frame{++last_frame_};
    frames_[frame] = create.page;
    return feed(Created{.page = create.page, .frame = frame});
  }
  if (!loads_.empty() && random_.one_in(2)) {
    const auto place = any_of(loads_);
    const Load load = *place;
    loads_.erase(place);
    return feed(Loaded{.page = load.page,
                       .generation = load.generation,
                       .ok = !random_.one_in(20),
                       .reason = random_.one_in(2) ? FailureKind::io_error : FailureKind::device_unhealthy});
  }
  if (fills_.empty()) return;
  const auto place = any_of(fills_);
  const CopyFrame copy = *place;
  fills_.erase(place);
  feed(FenceReached{.page = copy.page, .generation = copy.generation, .ok = !random_.one_in(20)});
}

void RandomWorld::lose_writer() {
  if (!random_.one_in(10)) return;
  const std::vector<Load> lost = std::exchange(loads_, {});
  fills_.clear();
  feed(WriterLost{});
  if (lost.empty()) return;
  feed(Loaded{.page = lost.front().page, .generation = lost.front().generation, .ok = true});  // Too late.
}

void RandomWorld::client_acts(SessionId id, Client& client) {
  const std::uint64_t die = random_.below(20);
  if (die < 12 && !client.inbox.empty()) {
    for (std::uint32_t message = 0; message < scale_ && !client.inbox.empty(); ++message)
      handle_next(id, client);
    return;
  }
  if (die < 14) return unpin_one(id, client);
  if (die < 15) return say_nonsense(id, client);
  if (die < 17 && !client.put_off.empty()) {
    const auto place = any_of(client.put_off);
    const PageKey page = place->page;
    if (client.pinned.contains(page)) return;
    client.put_off.erase(place);
    return give_back(id, client, page, false);
  }
  if (client.mapped.empty()) return;
  const PageKey page = any_of(client.mapped)->first;
  if (die == 18) {
    if (!client.pinned.contains(page)) client.pinned[page] = false;
  } else if (die == 19 && !client.pinned.contains(page)) {
    std::erase_if(client.put_off, [page](const Revoke& revoke) { return revoke.page == page; });
    give_back(id, client, page, true);
  }
}

void RandomWorld::handle_next(SessionId id, Client& client) {
  const std::variant<Batch, Revoke> message = std::move(client.inbox.front());
  client.inbox.pop_front();
  std::visit([&](const auto& content) { handle(id, client, content); }, message);
}

void RandomWorld::handle(SessionId id, Client& client, const Batch& batch) {
  for (const Grant& grant : batch.grants) {
    if (!client.attached.contains(grant.page.table)) continue;  // Closed meanwhile.
    client.mapped[grant.page] = grant.generation;
    if (random_.one_in(3)) client.pinned[grant.page] = false;
  }
  client.open_batch = 0;
  feed(Granted{.session = id, .batch = batch.number});
}

void RandomWorld::handle(SessionId id, Client& client, const Revoke& revoke) {
  const auto mapped = client.mapped.find(revoke.page);
  if (mapped == client.mapped.end() || mapped->second != revoke.generation) return;
  const auto pinned = client.pinned.find(revoke.page);
  if (pinned != client.pinned.end()) {
    pinned->second = true;
    return feed(Busy{.session = id, .page = revoke.page, .generation = revoke.generation});
  }
  if (client.attached.at(revoke.page.table) == RevokeMode::cooperative && random_.one_in(2)) {
    client.put_off.push_back(revoke);
    return feed(Busy{.session = id, .page = revoke.page, .generation = revoke.generation, .later = true});
  }
  give_back(id, client, revoke.page, false);
}

void RandomWorld::give_back(SessionId id, Client& client, PageKey page, bool release) {
  const auto mapped = client.mapped.find(page);
  CHECK(mapped != client.mapped.end());
  const Generation generation = mapped->second;
  client.mapped.erase(mapped);
  client.ended[page] = step_;
  if (release) {
    return feed(
        Release{.session = id, .page = page, .generation = generation, .drop_if_last = random_.one_in(2)});
  }
  feed(Acked{.session = id, .page = page, .generation = generation});
}

void RandomWorld::unpin_one(SessionId id, Client& client) {
  if (client.pinned.empty()) return;
  const auto place = any_of(client.pinned);
  const auto [page, owes_idle] = *place;
  client.pinned.erase(place);
  if (owes_idle) feed(Idle{.session = id, .page = page});
}

// Answers that name no grant of the record: ignored, whatever they say.
void RandomWorld::say_nonsense(SessionId id, Client& client) {
  if (client.attached.empty()) return;
  const TableId table = any_of(client.attached)->first;
  const PageKey page{.table = table, .index = static_cast<std::uint32_t>(random_.below(30 * scale_))};
  const Generation wrong{random_.one_in(2) ? raw(generations_[page]) + 1 : raw(generations_[page]) - 1};
  switch (random_.below(4)) {
    case 0: return feed(Acked{.session = id, .page = page, .generation = wrong});
    case 1: return feed(Busy{.session = id, .page = page, .generation = wrong, .later = random_.one_in(2)});
    case 2: return feed(Release{.session = id, .page = page, .generation = wrong});
    default:
      return feed(Granted{.session = id, .batch = static_cast<std::uint32_t>(random_.next()) | 1u << 31});
  }
}

void RandomWorld::request() {
  if (clients_.empty()) return open_client();
  const auto client = any_of(clients_);
  if (client->second.attached.empty() || client->second.silent) return;
  const TableOpened& table = tables_.at(any_of(client->second.attached)->first);
  const auto first = static_cast<std::uint32_t>(random_.below(table.pages));
  const auto count =
      static_cast<std::uint32_t>(random_.between(1, random_.one_in(3) ? table.pages - first : 1));
  const Ticket ticket{++last_ticket_};
  Request& made = requests_[ticket];
  made = {
      .session = client->first, .first = {table.table, first}, .count = count, .step = step_, .grants = true};
  if (table.kind == TableKind::overlay) {
    return feed(MakePrivate{
        .ticket = ticket, .session = client->first, .table = table.table, .first = first, .count = count});
  }
  if (random_.one_in(4)) {
    made.grants = false;
    return feed(Prefetch{.ticket = ticket, .table = table.table, .first = first, .count = count});
  }
  feed(Fault{
      .ticket = ticket, .session = client->first, .table = table.table, .first = first, .count = count});
}

void RandomWorld::request_of_service() {
  const Ticket ticket{++last_ticket_};
  const auto frames = static_cast<std::uint32_t>(random_.below(14)) * scale_;
  switch (random_.below(5)) {
    case 0:
      if (!requests_.empty()) feed(Cancel{.ticket = any_of(requests_)->first});
      return;
    case 1:
      requests_[ticket];
      budget_ = frames;
      return feed(SetBudget{.ticket = ticket, .frames = frames});
    case 2:
      if (!tables_.empty()) feed(Prioritize{.table = any_of(tables_)->first});
      return;
    case 3:
      if (clients_.empty() || clients_.begin()->second.attached.empty()) return;
      return feed(SetCutoff{.session = clients_.begin()->first,
                            .table = clients_.begin()->second.attached.begin()->first,
                            .pages = frames * 2});
    default:
      requests_[ticket];
      return feed(EvictRequest{.ticket = ticket,
                               .any_table = random_.one_in(2),
                               .table = tables_.empty() ? TableId{} : any_of(tables_)->first,
                               .frames = random_.one_in(2) ? frames : 0xffffffff});
  }
}

void RandomWorld::open_client() {
  if (clients_.size() >= 4) return;
  const SessionId id{++last_session_};
  clients_[id];
  feed(SessionOpened{.session = id, .private_frames_max = static_cast<std::uint32_t>(random_.below(5))});
}

void RandomWorld::close_client(SessionId id) {
  clients_.erase(id);
  for (auto table = tables_.begin(); table != tables_.end();) {
    table = table->second.owner == id ? tables_.erase(table) : std::next(table);
  }
  feed(SessionClosed{.session = id});
  for (const auto& [ticket, request] : requests_) CHECK(request.session != id || !request.grants);
}

void RandomWorld::open_or_close() {
  if (clients_.empty() || random_.one_in(5)) return open_client();
  const auto client = any_of(clients_);
  const SessionId id = client->first;
  if (random_.one_in(12)) return close_client(id);
  const RevokeMode mode = random_.one_in(2) ? RevokeMode::agent : RevokeMode::cooperative;
  if (random_.one_in(6) && !client->second.attached.empty()) {
    const TableId table = any_of(client->second.attached)->first;
    client->second.attached.erase(table);
    const auto of_table = [table](const auto& entry) { return entry.first.table == table; };
    const auto of_grant = [table](const Grant& grant) { return grant.page.table == table; };
    std::erase_if(client->second.mapped, of_table);
    std::erase_if(client->second.pinned, of_table);
    std::erase_if(client->second.put_off,
                  [table](const Revoke& revoke) { return revoke.page.table == table; });
    for (auto& message : client->second.inbox) {
      Batch* batch = std::get_if<Batch>(&message);
      if (batch != nullptr) std::erase_if(batch->grants, of_grant);
    }
    std::erase_if(client->second.incoming.grants, of_grant);
    std::erase_if(client->second.inbox, [table](const auto& message) {
      const Revoke* revoke = std::get_if<Revoke>(&message);
      return revoke != nullptr && revoke->page.table == table;
    });
    feed(TableDetached{.session = id, .table = table});
    if (random_.one_in(2)) return;
    for (const auto& [other, with] : clients_) {
      if (with.attached.contains(table)) return;
    }
    tables_.erase(table);
    return feed(TableClosed{.table = table});
  }
  TableOpened opened{.table = TableId{++last_table_},
                     .kind = static_cast<TableKind>(random_.below(4)),
                     .pages = static_cast<std::uint32_t>(random_.between(1, 16)) * scale_,
                     .owner = {},
                     .origin = {}};
  const bool is_private = opened.kind == TableKind::anonymous || opened.kind == TableKind::overlay;
  if (is_private) opened.owner = id;
  if (opened.kind == TableKind::overlay) {
    if (client->second.attached.empty()) return;
    const TableOpened& origin = tables_.at(any_of(client->second.attached)->first);
    if (raw(origin.owner) != 0) return;
    opened.origin = origin.table;
    opened.pages = origin.pages;
  }
  if (!is_private && tables_.size() >= 3) {
    for (const auto& [table, shared] : tables_) {
      if (raw(shared.owner) != 0 || client->second.attached.contains(table)) continue;
      client->second.attached[table] = mode;
      return feed(TableAttached{.session = id, .table = table, .mode = mode});
    }
    return;
  }
  if (tables_.size() >= 8) return;
  tables_[opened.table] = opened;
  feed(opened);
  client->second.attached[opened.table] = mode;
  feed(TableAttached{.session = id, .table = opened.table, .mode = mode});
}

}  // namespace penstock::test
