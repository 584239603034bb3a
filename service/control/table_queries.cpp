// SPDX-License-Identifier: Apache-2.0
// Questions that many tables answer: evict, scrub.
#include <algorithm>
#include <functional>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "service/control/queries.hpp"
#include "service/control/query_arguments.hpp"

namespace penstock {
namespace {

using Json = nlohmann::json;
using Tables = std::vector<std::shared_ptr<SharedTable>>;

// What the tables answered, added up, answered once when the last is in.
struct Collected {
  std::size_t waiting = 0;
  std::uint64_t bytes = 0, kept_pinned_bytes = 0, corrupt_pages = 0;
  bool device_unhealthy = false;

  void add(const RequestDone& done) {
    bytes += done.bytes;
    kept_pinned_bytes += done.kept_pinned_bytes;
    corrupt_pages += done.corrupt_pages;
    device_unhealthy |= done.result == TicketResult::failed && done.reason == FailureKind::device_unhealthy;
  }
};

// Asks each table's device; `finish` is called once, at once where there is no table.
template <class Mail>
void ask_all(const Tables& tables, const Mail& mail, std::function<void(const Collected&)> finish) {
  auto collected = std::make_shared<Collected>();
  collected->waiting = tables.size();
  if (tables.empty()) return finish(*collected);
  for (const auto& table : tables) {
    Mail one = mail;
    one.table = table->id;
    table->device->ask(one, [collected, finish](const RequestDone& done) {
      collected->add(done);
      if (--collected->waiting == 0) finish(*collected);
    });
  }
}

}  // namespace

std::shared_ptr<Checkpoint> Queries::checkpoint_named(const Json& arguments) const {
  const auto handle = session_.checkpoints_.find(value_or<std::uint64_t>(arguments, "checkpoint", 0));
  return handle != session_.checkpoints_.end()
             ? handle->second
             : service_.checkpoints.find(value_or<std::string>(arguments, "id", ""));
}

// Those that nobody but this session has open: at once, or when it closes them.
Json Queries::forget_idle(const Json& arguments) {
  std::vector<std::shared_ptr<Checkpoint>> named;
  if (value_or<bool>(arguments, "all", false)) {
    for (const auto& [id, checkpoint] : service_.checkpoints.entries()) named.push_back(checkpoint);
  } else if (const auto one = checkpoint_named(arguments)) {
    named.push_back(one);
  }
  std::size_t forgotten = 0;
  for (const auto& checkpoint : named) {
    const auto own =
        std::ranges::count(session_.checkpoints_, checkpoint, [](const auto& open) { return open.second; });
    if (checkpoint->sessions > static_cast<std::uint64_t>(own)) continue;
    checkpoint->unwanted = true;
    ++forgotten;
  }
  service_.drop_idle();
  return {{"forgotten_checkpoints", forgotten}, {"kept_checkpoints", named.size() - forgotten}};
}

Outcome<Tables> Queries::tables_named(const Json& arguments, std::string_view verb) {
  if (value_or<bool>(arguments, "all", false)) {
    if (!session_.is_admin()) {
      return fail(FailureKind::not_permitted,
                  fmt::format("{} everything needs root or the admin group", verb),
                  "see service.admin_group");
    }
    Tables tables;
    for (const auto& [number, table] : service_.tables.tables()) {
      if (!table->key.empty()) tables.push_back(table);
    }
    return tables;
  }
  const auto checkpoint = checkpoint_named(arguments);
  if (!checkpoint) {
    return fail(FailureKind::not_found,
                fmt::format("there is no checkpoint {}", value_or<std::string>(arguments, "id", "")),
                "penstock status lists them");
  }
  const bool is_open = session_.checkpoints_.contains(value_or<std::uint64_t>(arguments, "checkpoint", 0));
  if (!session_.is_admin() && checkpoint->sessions > (is_open ? 1u : 0u)) {
    return fail(FailureKind::not_permitted, fmt::format("checkpoint {} is used by others", checkpoint->id),
                fmt::format("{} what others use needs root or the admin group", verb));
  }
  return service_.tables.of(*checkpoint);
}

void Queries::evict(std::uint64_t request, const Json& arguments) {
  auto tables = tables_named(arguments, "evicting");
  if (!tables) return session_.refuse(request, tables.error());
  ask_all(
      *tables, mail::EvictTable{.request = {}, .any_table = false, .table = {}, .bytes = ~0ull},
      [self = session_.shared_from_this(), request, arguments](const Collected& collected) {
        if (!self->alive()) return;
        Json answer{{"evicted_bytes", collected.bytes}, {"kept_pinned_bytes", collected.kept_pinned_bytes}};
        if (value_or<bool>(arguments, "forget", false))
          answer.update(Queries(self->service_, *self).forget_idle(arguments));
        self->answer_json(request, answer.dump());
      });
}

void Queries::scrub(std::uint64_t request, const Json& arguments) {
  auto tables = tables_named(arguments, "scrubbing");
  if (!tables) return session_.refuse(request, tables.error());
  ask_all(*tables, mail::ScrubTable{.request = {}, .any_table = false, .table = {}},
          [self = session_.shared_from_this(), request](const Collected& collected) {
            if (!self->alive()) return;
            if (collected.device_unhealthy && collected.corrupt_pages == 0) {
              return self->refuse(request, {.kind = FailureKind::device_unhealthy,
                                            .message = "a device can't take checksums of its pages now",
                                            .hint = "the service's log says why; try again in a minute"});
            }
            self->answer_json(
                request,
                Json{{"scrubbed_bytes", collected.bytes}, {"corrupt_pages", collected.corrupt_pages}}.dump());
          });
}

}  // namespace penstock
