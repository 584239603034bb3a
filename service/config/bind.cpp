// SPDX-License-Identifier: Apache-2.0
#include "service/config/bind.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "service/config/keys.hpp"
#include "service/config/nearest.hpp"
#include "service/config/values.hpp"

namespace penstock {
namespace {

constexpr std::uint64_t host_page_bytes = 8 * mib;

}  // namespace

void ConfigBinder::add(const std::string& file, std::string_view text) {
  ConfigDocument document = parse_document(text, file);
  const std::size_t first = problems_.size();
  for (ConfigProblem& problem : document.problems) {
    // The grammar's own words don't say what the key would take.
    if (const ConfigKey* key = find_key(problem.key)) problem.message += "; this key takes " + key->allowed;
    problems_.push_back(std::move(problem));
  }
  for (const ConfigEntry& entry : document.entries) bind(file, entry);
  std::ranges::stable_sort(problems_.begin() + static_cast<std::ptrdiff_t>(first), problems_.end(), {},
                           &ConfigProblem::line);
}

void ConfigBinder::bind(const std::string& file, const ConfigEntry& entry) {
  const ConfigKey* key = find_key(entry.key);
  if (key == nullptr) {
    explain_unknown(file, entry);
    return;
  }
  std::string problem = key->assign(config_, entry.value);
  if (problem.empty()) {
    set_at_[entry.key] = Place{.file = file, .line = entry.line};
  } else {
    problems_.push_back({.file = file, .line = entry.line, .key = entry.key, .message = std::move(problem)});
  }
}

void ConfigBinder::explain_unknown(const std::string& file, const ConfigEntry& entry) {
  const auto problem = [&](std::string message) {
    problems_.push_back({.file = file, .line = entry.line, .key = entry.key, .message = std::move(message)});
  };
  const auto removed = std::ranges::find(removed_, std::string_view(entry.key), &RemovedKey::key);
  if (removed != removed_.end()) return problem(fmt::format("is no longer a key: {}", removed->replacement));
  if (is_section(entry.key)) {
    const OtherValue* other = std::get_if<OtherValue>(&entry.value);
    if (other != nullptr && other->what == "a table") return;  // An empty section sets nothing.
    return problem(fmt::format("is a section, written [{}], found {}", entry.key, kind_of(entry.value)));
  }
  const std::string_view nearest = nearest_key(entry.key);
  const ConfigKey& key = *find_key(nearest);
  problem(fmt::format("unknown key; the nearest known one is {} ({} in section [{}])", nearest, key.name(),
                      key.section()));
}

void ConfigBinder::refuse_at(const std::string& key, std::string message) {
  const auto found = set_at_.find(key);
  const Place place = found == set_at_.end() ? Place{} : found->second;
  problems_.push_back({.file = place.file, .line = place.line, .key = key, .message = std::move(message)});
}

void ConfigBinder::check_device(std::string_view kind, const DeviceConfig& device,
                                std::uint64_t default_page_bytes) {
  if (!device.capacity_bytes) return;
  const std::string capacity_key = fmt::format("device.{}.capacity", kind);
  const std::uint64_t capacity = *device.capacity_bytes;
  const std::uint64_t page = device.page_bytes.value_or(default_page_bytes);
  if (capacity < page) {
    refuse_at(capacity_key, fmt::format("{} is less than one page of {}: wants that at least, or a smaller "
                                        "device.{}.page_bytes",
                                        exact_bytes(capacity), exact_bytes(page), kind));
  }
  if (device.headroom_bytes && *device.headroom_bytes >= capacity) {
    refuse_at(fmt::format("device.{}.headroom", kind),
              fmt::format("{} leave nothing of the capacity of {}", exact_bytes(*device.headroom_bytes),
                          exact_bytes(capacity)));
  }
}

// What can't be done must not be passed over in silence.
void ConfigBinder::check_probes() {
  if (config_.time_faults && config_.ebpf == ProbeMode::off)
    refuse_at("probes.time_faults", "true needs the probes, and probes.ebpf is \"off\"");
}

tl::expected<Config, ConfigProblems> ConfigBinder::finish() {
  if (problems_.empty()) {
    check_device("host", config_.host, host_page_bytes);
    check_device("cuda", config_.cuda, 1);
    check_device("hip", config_.hip, 1);
    check_probes();
  }
  if (!problems_.empty()) return tl::unexpected<ConfigProblems>(std::move(problems_));
  return std::move(config_);
}

}  // namespace penstock
