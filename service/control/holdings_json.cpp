// SPDX-License-Identifier: Apache-2.0
#include "service/control/holdings_json.hpp"

#include <array>
#include <string_view>

#include <nlohmann/json.hpp>

namespace penstock {
namespace {

using Json = nlohmann::json;

constexpr std::array<std::string_view, wire::holding_kinds> kind_names = {"weights", "work",  "carry",
                                                                          "results", "state", "other"};
// By HoldingPlace; a device's has its id for a key.
constexpr std::array<std::string_view, wire::holding_places> place_keys = {
    "", "locked_host_bytes", "anonymous_bytes", "page_cache_bytes", "disk_bytes"};

void put(Json& object, const char* key, const std::optional<std::uint64_t>& figure) {
  if (figure) object[key] = *figure;
}

// A client counts what it allocated, wherever the kernel put it since.
std::optional<std::uint64_t> anonymous_rest(const std::vector<wire::Holding>& holdings,
                                            const ProcessMemory& process) {
  if (!process.anonymous) return std::nullopt;
  std::uint64_t rest = *process.anonymous + process.swapped.value_or(0);
  for (const wire::Holding& holding : holdings) {
    if (holding.place != wire::HoldingPlace::anonymous) continue;
    if (holding.kind == wire::HoldingKind::other) return std::nullopt;  // It says so itself.
    rest -= std::min(rest, holding.bytes);
  }
  return rest;
}

}  // namespace

Json kinds_json(const std::vector<wire::Holding>& holdings, const std::vector<std::string>& devices,
                const ProcessMemory* process) {
  Json kinds = Json::object();
  for (const wire::Holding& holding : holdings) {
    Json& kind = kinds[std::string(kind_names[static_cast<std::size_t>(holding.kind)])];
    if (holding.device) {
      if (*holding.device < devices.size()) kind["devices"][devices[*holding.device]] = holding.bytes;
    } else {
      kind[std::string(place_keys[static_cast<std::size_t>(holding.place)])] = holding.bytes;
    }
  }
  const auto rest = process != nullptr ? anonymous_rest(holdings, *process) : std::nullopt;
  if (rest) kinds["other"]["anonymous_bytes"] = *rest;
  return kinds;
}

Json process_json(const ProcessMemory& process) {
  Json json = Json::object();
  put(json, "anonymous_bytes", process.anonymous);
  put(json, "page_cache_bytes", process.page_cache);
  put(json, "shared_memory_bytes", process.shared_memory);
  put(json, "locked_bytes", process.locked);
  put(json, "swapped_bytes", process.swapped);
  put(json, "compressed_bytes", process.compressed);
  put(json, "on_disk_bytes", process.on_disk);
  return json;
}

}  // namespace penstock
