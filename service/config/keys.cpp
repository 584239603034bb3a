// SPDX-License-Identifier: Apache-2.0
#include "service/config/keys.hpp"

#include <algorithm>
#include <climits>
#include <vector>

#include "service/config/values.hpp"

namespace penstock {
namespace {

using namespace std::chrono_literals;

constexpr std::string_view unresponsive_names[] = {"wait", "kill"};
constexpr std::string_view level_names[] = {"error", "warning", "info", "debug"};
constexpr std::string_view format_names[] = {"text", "json"};
constexpr std::string_view io_names[] = {"auto", "uring", "pread"};
constexpr std::string_view probe_names[] = {"auto", "required", "off"};

constexpr std::uint64_t bytes_max = INT64_MAX;
constexpr std::size_t socket_path_bytes_max = 107;  // sun_path without its terminator.
constexpr SizeKind any_size{.min = 1, .max = bytes_max};
constexpr SizeKind any_size_or_none{.min = 1, .max = bytes_max, .zero = "none"};

// `member(config)` is a reference to the value that the key sets.
template <class Kind, class Member>
ConfigKey make_key(std::string path, Kind kind, Member member, bool at_once = false) {
  return {
      .path = std::move(path),
      .allowed = kind.allowed(),
      .at_once = at_once,
      .assign = [kind, member](Config& to, const ConfigValue& from) { return kind.assign(from, member(to)); },
      .print = [kind, member](const Config& from) { return kind.print(member(from)); }};
}

constexpr bool while_running = true;

void add_service(std::vector<ConfigKey>& keys) {
  constexpr DurationKind deadline{.min = 1ms, .max = 1h};
  keys.push_back(make_key(
      "service.socket", PathKind{socket_path_bytes_max}, [](auto& c) -> auto& { return c.service.socket; }));
  keys.push_back(make_key(
      "service.socket_group", GroupKind{}, [](auto& c) -> auto& { return c.service.socket_group; }));
  keys.push_back(make_key(
      "service.admin_group", GroupKind{}, [](auto& c) -> auto& { return c.service.admin_group; }));
  keys.push_back(make_key(
      "service.state_directory", PathKind{PATH_MAX - 256},
      [](auto& c) -> auto& { return c.service.state_directory; }));
  keys.push_back(make_key(
      "service.revoke_deadline", deadline, [](auto& c) -> auto& { return c.service.revoke_deadline; }));
  keys.push_back(make_key(
      "service.cooperative_deadline", deadline,
      [](auto& c) -> auto& { return c.service.cooperative_deadline; }));
  keys.push_back(make_key(
      "service.on_unresponsive", ChoiceKind<OnUnresponsive>{unresponsive_names},
      [](auto& c) -> auto& { return c.service.on_unresponsive; }));
  keys.push_back(make_key(
      "service.allow_links", BoolKind{}, [](auto& c) -> auto& { return c.service.allow_links; }));
}

void add_rest(std::vector<ConfigKey>& keys) {
  keys.push_back(make_key(
      "log.level", ChoiceKind<LogLevel>{level_names}, [](auto& c) -> auto& { return c.log.level; },
      while_running));
  keys.push_back(make_key(
      "log.format", ChoiceKind<LogFormat>{format_names}, [](auto& c) -> auto& { return c.log.format; }));
  keys.push_back(make_key(
      "metrics.listen", ListenKind{}, [](auto& c) -> auto& { return c.metrics.listen; }));
  keys.push_back(make_key(
      "reader.io", ChoiceKind<ReaderIo>{io_names}, [](auto& c) -> auto& { return c.reader.io; }));
  keys.push_back(make_key(
      "reader.ring_bytes", SizeKind{.min = 1 * mib, .max = 16 * gib},
      [](auto& c) -> auto& { return c.reader.ring_bytes; }));
  keys.push_back(make_key(
      "reader.bandwidth", SizeKind{.min = 1 * mib, .max = bytes_max, .zero = "no cap"},
      [](auto& c) -> auto& { return c.reader.bandwidth_bytes; }));
  keys.push_back(make_key(
      "probes.ebpf", ChoiceKind<ProbeMode>{probe_names}, [](auto& c) -> auto& { return c.ebpf; }));
  keys.push_back(make_key(
      "probes.time_faults", BoolKind{}, [](auto& c) -> auto& { return c.time_faults; }));
  keys.push_back(make_key(
      "host.locked_bytes", AutoSizeKind{any_size_or_none},
      [](auto& c) -> auto& { return c.locked_host_bytes; }));
  keys.push_back(make_key(
      "quota.per_user_bytes", any_size_or_none, [](auto& c) -> auto& { return c.per_user_bytes; },
      while_running));
}

template <class Device>
void add_device(std::vector<ConfigKey>& keys, const std::string& kind, Device device) {
  const std::string section = "device." + kind + ".";
  constexpr AutoSizeKind page{.size = {.min = 4 * kib, .max = 1 * gib}, .power_of_two = true};
  keys.push_back(make_key(
      section + "enabled", UseKind{}, [device](auto& c) -> auto& { return device(c).enabled; }));
  keys.push_back(make_key(
      section + "capacity",
      AutoSizeKind{any_size}, [device](auto& c) -> auto& { return device(c).capacity_bytes; }));
  keys.push_back(make_key(
      section + "headroom",
      AutoSizeKind{any_size_or_none}, [device](auto& c) -> auto& { return device(c).headroom_bytes; }));
  keys.push_back(make_key(
      section + "page_bytes", page, [device](auto& c) -> auto& { return device(c).page_bytes; }));
}

std::vector<ConfigKey> make_keys() {
  std::vector<ConfigKey> keys;
  add_service(keys);
  add_rest(keys);
  add_device(
      keys, "host", [](auto& c) -> auto& { return c.host; });
  add_device(
      keys, "cuda", [](auto& c) -> auto& { return c.cuda; });
  add_device(
      keys, "hip", [](auto& c) -> auto& { return c.hip; });
  return keys;
}

}  // namespace

std::span<const ConfigKey> config_keys() {
  static const std::vector<ConfigKey> keys = make_keys();
  return keys;
}

const ConfigKey* find_key(std::string_view path) {
  const auto found = std::ranges::find(config_keys(), path, &ConfigKey::path);
  return found == config_keys().end() ? nullptr : &*found;
}

bool is_section(std::string_view path) {
  const std::string prefix = std::string(path) + ".";
  return std::ranges::any_of(config_keys(),
                             [&](const ConfigKey& key) { return key.path.starts_with(prefix); });
}

}  // namespace penstock
