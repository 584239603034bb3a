// SPDX-License-Identifier: Apache-2.0
#include "service/control/queries.hpp"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "service/control/load_shortage.hpp"
#include "service/control/newest_figures.hpp"
#include "service/control/query_arguments.hpp"
#include "service/control/status_json.hpp"

namespace penstock {
namespace {

using Json = nlohmann::json;

std::string text_of(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

Json shortage_json(const Failure& failure) {
  return {{"kind", failure_kind_name(failure.kind)}, {"message", failure.message}, {"hint", failure.hint}};
}

// What a person is told of a load that failed.
Failure not_loaded(const RequestDone& done, const std::string& device) {
  if (!done.detail.empty()) return {done.reason, done.detail, ""};
  if (done.reason == FailureKind::device_unhealthy) {
    return {done.reason, fmt::format("the checkpoint was not loaded: {} can't be used now", device),
            "penstock explain says why; the service tries the device again by itself"};
  }
  return {done.reason,
          fmt::format("the checkpoint was not loaded to {}: {}", device, failure_kind_name(done.reason)), ""};
}

}  // namespace

bool Queries::concerns(const Checkpoint& checkpoint) const {
  if (session_.is_admin()) return true;
  const auto& open = session_.checkpoints();
  return std::ranges::any_of(open, [&](const auto& entry) { return entry.second->id == checkpoint.id; });
}

void Queries::run(std::uint64_t request, const wire::Query& query) {
  const Json arguments = query.json.empty() ? Json::object() : Json::parse(query.json, nullptr, false);
  if (!arguments.is_object()) {
    return session_.refuse(request, {FailureKind::invalid_argument, "the arguments are no JSON object", ""});
  }
  switch (query.kind) {
    case wire::QueryKind::status: return show(request, &Queries::status);
    case wire::QueryKind::doctor: return show(request, &Queries::doctor);
    case wire::QueryKind::explain: return explain(request, arguments);
    case wire::QueryKind::load: return load(request, arguments);
    case wire::QueryKind::evict: return evict(request, arguments);
    case wire::QueryKind::scrub: return scrub(request, arguments);
  }
}

// The client may be gone, or told that the service stops, before the figures are there.
void Queries::show(std::uint64_t request, std::string (Queries::*text)() const) {
  with_newest_figures(service_.context, service_.devices,
                      [weak = session_.weak_from_this(), &service = service_, request, text] {
                        const std::shared_ptr<Session> session = weak.lock();
                        if (!session || !session->alive() || !session->unanswered_.contains(request)) return;
                        const Queries queries(service, *session);
                        session->answer_json(request, (queries.*text)());
                      });
}

std::string Queries::status() const {
  return text_of(status_json(service_, [this](const Checkpoint& one) { return concerns(one); }));
}

std::string Queries::doctor() const { return text_of(doctor_json(service_)); }

void Queries::explain(std::uint64_t request, const Json& arguments) {
  const auto since =
      std::chrono::system_clock::time_point(std::chrono::duration_cast<std::chrono::system_clock::duration>(
          std::chrono::nanoseconds(value_or<std::uint64_t>(arguments, "since_ns", 0))));
  session_.answer_json(request,
                       service_.decisions.to_json(value_or<std::string>(arguments, "id", ""), since));
}

void Queries::load(std::uint64_t request, const Json& arguments) {
  const auto handle = session_.checkpoints_.find(value_or<std::uint64_t>(arguments, "checkpoint", 0));
  if (handle == session_.checkpoints_.end()) {
    return session_.refuse(request,
                           {FailureKind::not_found, "load wants a checkpoint that this client has open", ""});
  }
  const std::string wanted = value_or<std::string>(arguments, "device", "");
  const auto device = std::ranges::find_if(
      service_.devices, [&](const auto& one) { return wanted.empty() || one->description().id == wanted; });
  if (device == service_.devices.end()) {
    return session_.refuse(request, {FailureKind::not_found, fmt::format("there is no device {}", wanted),
                                     "penstock status lists the devices"});
  }
  const auto checkpoint = handle->second;
  auto table = service_.tables.file_table(checkpoint, **device, TableLayout::automatic);
  if (!table) return session_.refuse(request, table.error());
  const auto start = std::chrono::steady_clock::now();
  // The session may be gone, and its number used by nobody else, before the answer is in.
  (*device)->ask(
      mail::LoadTable{.request = {}, .table = (*table)->id, .first = 0, .count = (*table)->pages},
      [self = session_.shared_from_this(), request, checkpoint, table = *table, start,
       position = static_cast<std::size_t>(device - service_.devices.begin()),
       id = (*device)->description().id](const RequestDone& done) {
        if (!self->alive()) return;
        if (done.result != TicketResult::done) {
          return self->refuse(request, not_loaded(done, id));
        }
        const double seconds =
            std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
        const std::uint64_t read = done.direct_bytes + done.cached_bytes;
        const std::uint64_t resident = std::min(table->resident_bytes(), table->bytes);
        const Json missing = resident < table->bytes
                                 ? shortage_json(load_shortage(self->service_, position, done.reason))
                                 : Json();
        self->answer_json(
            request, text_of({{"checkpoint", checkpoint->id},
                              {"bytes", table->bytes},
                              {"resident_bytes", resident},
                              {"incomplete", missing},
                              {"seconds", seconds},
                              {"bytes_per_second", seconds > 0 ? static_cast<double>(read) / seconds : 0.0},
                              {"device_limit_fraction", nullptr},  // Nobody measures the limit yet.
                              {"read_bytes", read},
                              {"direct_bytes", done.direct_bytes},
                              {"cached_bytes", done.cached_bytes}}));
      });
}

}  // namespace penstock
