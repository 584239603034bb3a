// SPDX-License-Identifier: Apache-2.0
// Config: everything an operator can set, with its default. Plain values; const once loaded.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "dataplane/base/clock.hpp"
#include "dataplane/base/units.hpp"

namespace penstock {

enum class OnUnresponsive : std::uint8_t { wait, kill };
enum class LogLevel : std::uint8_t { error, warning, info, debug };
enum class LogFormat : std::uint8_t { text, json };
enum class ReaderIo : std::uint8_t { automatic, uring, pread };
enum class ProbeMode : std::uint8_t { automatic, required, off };
enum class DeviceUse : std::uint8_t { automatic, on, off };

struct ListenAddress {
  std::string address;     // Numeric IPv4 or IPv6, without brackets.
  std::uint16_t port = 0;  // 0 lets the kernel choose.
  friend bool operator==(const ListenAddress&, const ListenAddress&) = default;
};

struct ServiceConfig {
  std::string socket = "/run/penstock/penstock.sock";
  std::string socket_group = "penstock";  // Absent on this system: nobody but root.
  std::string admin_group;                // Empty: root alone.
  std::string state_directory = "/var/lib/penstock";
  Nanoseconds revoke_deadline = std::chrono::seconds(1);
  Nanoseconds cooperative_deadline = std::chrono::seconds(30);
  OnUnresponsive on_unresponsive = OnUnresponsive::wait;
  bool allow_links = true;
  friend bool operator==(const ServiceConfig&, const ServiceConfig&) = default;
};

struct LogConfig {
  LogLevel level = LogLevel::info;
  LogFormat format = LogFormat::text;
  friend bool operator==(const LogConfig&, const LogConfig&) = default;
};

struct MetricsConfig {
  std::optional<ListenAddress> listen = ListenAddress{.address = "127.0.0.1", .port = 9836};  // nullopt: off.
  friend bool operator==(const MetricsConfig&, const MetricsConfig&) = default;
};

struct ReaderConfig {
  ReaderIo io = ReaderIo::automatic;
  std::uint64_t ring_bytes = 32 * mib;
  std::uint64_t bandwidth_bytes = 0;  // A second; 0 = no cap.
  friend bool operator==(const ReaderConfig&, const ReaderConfig&) = default;
};

// Sizes without a value are "auto": chosen at start from what the machine and its cgroups have.
struct DeviceConfig {
  DeviceUse enabled = DeviceUse::automatic;
  std::optional<std::uint64_t> capacity_bytes;
  std::optional<std::uint64_t> headroom_bytes;
  std::optional<std::uint64_t> page_bytes;
  friend bool operator==(const DeviceConfig&, const DeviceConfig&) = default;
};

struct Config {
  ServiceConfig service;
  LogConfig log;
  MetricsConfig metrics;
  ReaderConfig reader;
  ProbeMode ebpf = ProbeMode::automatic;
  bool time_faults = false;  // Costs half a microsecond a major fault of a checkpoint's page.
  std::optional<std::uint64_t> locked_host_bytes;  // nullopt = "auto".
  std::uint64_t per_user_bytes = 0;                // Quota; 0 = none.
  DeviceConfig host, cuda, hip;
  friend bool operator==(const Config&, const Config&) = default;
};

// TOML text of every key; parses back to an equal Config.
std::string print_config(const Config& config);

}  // namespace penstock
