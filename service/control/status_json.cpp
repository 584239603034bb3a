// SPDX-License-Identifier: Apache-2.0
#include "service/control/status_json.hpp"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "service/control/holdings_json.hpp"
#include "service/control/kernel_json.hpp"
#include "service/control/session.hpp"

namespace penstock {
namespace {

using Json = nlohmann::json;

// A figure that nobody measures is null, never 0.
Json or_null(const std::optional<std::uint64_t>& figure) { return figure ? Json(*figure) : Json(); }

// Null for a device of which nobody but this service is asked.
Json usage_json(const std::optional<GpuUsageStats>& usage) {
  if (!usage) return nullptr;
  return {
      {"state", usage->state},
      {"age_seconds", usage->used_bytes ? Json(std::chrono::duration<double>(usage->age).count()) : Json()},
      {"total_bytes", or_null(usage->total_bytes)},
      {"used_bytes", or_null(usage->used_bytes)},
      {"reserved_bytes", or_null(usage->reserved_bytes)},
      {"free_bytes", or_null(usage->free_bytes)},
      {"shares_host_memory", usage->shares_host_memory}};
}

Json device_json(const ServiceState& service, std::size_t position) {
  const DeviceLink& device = *service.devices[position];
  const AdmissionDesk& desk = *service.admissions[position];
  const std::optional<GpuUsageStats>& usage = service.usage[position];
  const LedgerFigures ledger = desk.figures();
  const PagerStats& stats = device.stats();
  return {{"id", device.description().id},
          {"kind", device.description().kind},
          {"page_bytes", device.description().limits.frame_bytes},
          {"capacity_bytes", stats.capacity_bytes.load()},
          {"budget_bytes", stats.budget_bytes.load()},
          {"resident_bytes", stats.resident_bytes.load()},
          {"used_bytes", stats.used_bytes.load()},
          {"private_bytes", stats.private_bytes.load()},
          {"pinned_bytes", stats.pinned_bytes.load()},
          {"booked_bytes", ledger.booked_bytes()},
          {"foreign_bytes", or_null(ledger.foreign_bytes)},
          {"counted_foreign_bytes", ledger.counted_foreign_bytes},
          {"ghost_bytes", or_null(usage ? usage->ghost_bytes : std::nullopt)},
          {"headroom_bytes", ledger.headroom_bytes},
          {"admissible_bytes", ledger.free_bytes},
          {"usage", usage_json(usage)},
          {"stuck_bytes", stats.stuck_bytes.load()},
          {"minor_faults", stats.minor_faults.load()},
          {"major_faults", stats.major_faults.load()},
          {"refaults", stats.refaults.load()},
          {"evictions",
           [&] {
             std::uint64_t sum = 0;
             for (const auto& figure : stats.evictions) sum += figure.load();
             return sum;
           }()},
          {"read_bytes", stats.direct_bytes.load() + stats.cached_bytes.load()},
          {"direct_bytes", stats.direct_bytes.load()},
          {"cached_bytes", stats.cached_bytes.load()},
          {"writer_losses", stats.writer_losses.load()},
          {"scrubbed_pages", stats.scrubbed_pages.load()},
          {"corrupt_pages", stats.corrupt_pages.load()},
          {"state", device.stopped() ? "stopped" : device_condition_name(stats.condition)}};
}

// `tier` is null where no GPU uses one.
Json host_json(const HostBuffers& buffers) {
  Json json{{"locked_bytes", buffers.bytes()},
            {"locked_budget_bytes", buffers.budget_bytes()},
            {"buffer_bytes", buffers.bytes()},
            {"tier", nullptr}};
  if (buffers.tier() == nullptr) return json;
  const TierStats tier = buffers.tier()->stats();
  json["locked_bytes"] = buffers.bytes() + tier.used_bytes;
  json["tier"] = {{"used_bytes", tier.used_bytes},
                  {"held_bytes", tier.held_bytes},
                  {"budget_bytes", tier.budget_bytes},
                  {"page_bytes", tier.page_bytes},
                  {"hits", tier.hits},
                  {"hit_bytes", tier.hit_bytes},
                  {"misses", tier.misses},
                  {"miss_bytes", tier.miss_bytes},
                  {"evictions", tier.evictions},
                  {"refused_frames", tier.refused_frames},
                  {"unlocked_frames", tier.unlocked_frames}};
  return json;
}

std::string_view name_of(SourcePlace place) {
  switch (place) {
    case SourcePlace::locked_host: return "locked_host";
    case SourcePlace::page_cache: return "page_cache";
    case SourcePlace::client_memory: return "client_memory";
    case SourcePlace::client_swap: return "client_swap";
    case SourcePlace::disk: break;
  }
  return "disk";
}

Json checkpoint_json(const ServiceState& service, const KernelStats* kernel, const Checkpoint& checkpoint,
                     bool shown) {
  Json json{{"id", checkpoint.id},
            {"name", shown ? checkpoint.name : "(another user's)"},
            {"bytes", checkpoint.identity().bytes},
            {"resident_bytes", service.device_bytes(checkpoint)},
            {"locked_host_bytes", service.locked_host_bytes(checkpoint).value_or(0)},
            {"clients", checkpoint.sessions}};
  if (shown) json["path"] = checkpoint.path;
  for (const auto& table : service.tables.of(checkpoint)) {
    if (table->source) json["reload_from"][table->device->description().id] = name_of(table->source_place);
  }
  const PageCacheFigures* const page_cache = kernel != nullptr ? kernel->find(checkpoint.id) : nullptr;
  if (page_cache != nullptr) add_page_cache(json, *page_cache);
  if (checkpoint.unlinked) json["unlinked"] = true;
  return json;
}

// GPUs that are no devices, since their memory can't be shared.
Json copies_json(const CopyLedger& copies) {
  Json json = Json::array();
  for (const CopyLedger::Figures& one : copies.figures()) {
    json.push_back({{"id", one.gpu->id},
                    {"kind", one.gpu->kind},
                    {"total_bytes", one.gpu->total_bytes},
                    {"headroom_bytes", one.gpu->headroom_bytes},
                    {"copies_bytes", one.copies_bytes},
                    {"clients", one.sessions}});
  }
  return json;
}

const ProcessMemory* process_of(const KernelStats* kernel, SessionId session) {
  if (kernel == nullptr) return nullptr;
  const auto found = std::ranges::find(kernel->processes, raw(session), &ClientMemoryFigures::client);
  return found == kernel->processes.end() ? nullptr : &found->memory;
}

void add_reported(Json& json, const ServiceState& service, const Session::Reported& reported,
                  const ProcessMemory* process) {
  std::vector<std::string> devices;
  for (const auto& device : service.devices) devices.push_back(device->description().id);
  json["kinds"] = kinds_json(reported.holdings, devices, process);
  json["report_age_seconds"] = std::chrono::duration<double>(monotonic_now() - reported.at).count();
}

Json client_json(const ServiceState& service, const KernelStats* kernel, const Session& session) {
  Json json{{"id", raw(session.id())},
            {"pid", session.peer().pid},
            {"uid", session.peer().uid},
            {"name", session.name()},
            {"state", session.stuck() ? "stuck" : "ready"},
            {"pinned_bytes", session.pinned_bytes()},
            {"private_bytes", session.private_bytes()},
            {"anonymous_bytes", session.anonymous_bytes()}};
  if (service.host_buffers) json["locked_host_bytes"] = service.host_buffers->bytes_of(session.id());
  if (const BufferReader* reader = session.buffer_reader(); reader != nullptr)
    json["read_into_buffers"] = {{"direct_bytes", reader->direct_bytes()},
                                 {"cached_bytes", reader->cached_bytes()}};
  const ProcessMemory* const process = process_of(kernel, session.id());
  if (process != nullptr) json["process"] = process_json(*process);
  if (session.reported() != nullptr) add_reported(json, service, *session.reported(), process);
  for (const auto& [gpu, bytes] : service.copies.bytes_of(session.id()))
    json["kinds"]["copies"]["devices"][std::string(gpu)] = bytes;
  if (kernel == nullptr) return json;
  const auto own = std::ranges::find(kernel->clients, raw(session.id()), &ClientCgroupFigures::client);
  if (own != kernel->clients.end()) add_client_cgroup(json, *own);
  return json;
}

}  // namespace

Json status_json(const ServiceState& service, const std::function<bool(const Checkpoint&)>& shown) {
  Json devices = Json::array(), checkpoints = Json::array(), clients = Json::array();
  const std::shared_ptr<const KernelStats> kernel = service.kernel_stats();
  for (std::size_t i = 0; i < service.devices.size(); ++i) {
    devices.push_back(device_json(service, i));
  }
  for (const auto& [id, checkpoint] : service.checkpoints.entries()) {
    checkpoints.push_back(checkpoint_json(service, kernel.get(), *checkpoint, shown(*checkpoint)));
  }
  for (const auto& [id, session] : service.sessions) {
    if (session->greeted()) clients.push_back(client_json(service, kernel.get(), *session));
  }
  Json status{{"devices", std::move(devices)},
              {"unshared", copies_json(service.copies)},
              {"checkpoints", std::move(checkpoints)},
              {"clients", std::move(clients)},
              {"reader", {{"backend", service.reader.backend}, {"reason", service.reader.reason}}},
              {"metrics", {{"address", service.metrics_address}}},
              {"pressure", pressure_json(kernel.get(), service.pressure)},
              {"parses", service.checkpoints.parses()},
              {"closing", service.closing}};
  if (service.host_buffers) {
    status["host"] = host_json(*service.host_buffers);
  }
  return status;
}

Json doctor_json(const ServiceState& service) {
  Json devices = Json::array();
  for (std::size_t i = 0; i < service.devices.size(); ++i) {
    devices.push_back(device_json(service, i));
  }
  Json doctor{{"devices", std::move(devices)},
              {"reader",
               {{"backend", service.reader.backend},
                {"reason", service.reader.reason},
                {"registered", service.reader.registered},
                {"ring_bytes", service.reader.ring_bytes},
                {"huge_bytes", service.reader.huge_bytes},
                {"locked", service.reader.locked}}}};
  if (const auto& own = service.protection) {
    doctor["protection"] = {{"oom_score", own->oom_score},
                            {"locked_bytes", own->locked_bytes},
                            {"refused_bytes", own->refused_bytes},
                            {"why", own->why}};
  }
  if (const auto kernel = service.kernel_stats()) add_probes(doctor, *kernel);
  return doctor;
}

}  // namespace penstock
