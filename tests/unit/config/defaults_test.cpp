// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <gtest/gtest.h>

#include "service/config/keys.hpp"
#include "tests/unit/config/read_config.hpp"

namespace penstock {
namespace {

using test::read_config;
using test::verdict;

constexpr std::string_view defaults = R"([service]
socket = "/run/penstock/penstock.sock"
socket_group = "penstock"
admin_group = ""
state_directory = "/var/lib/penstock"
revoke_deadline = "1s"
cooperative_deadline = "30s"
on_unresponsive = "wait"
allow_links = true

[log]
level = "info"
format = "text"

[metrics]
listen = "127.0.0.1:9836"

[reader]
io = "auto"
ring_bytes = "32MiB"
bandwidth = "0"

[probes]
ebpf = "auto"
time_faults = false

[host]
locked_bytes = "auto"

[quota]
per_user_bytes = "0"

[device.host]
enabled = "auto"
capacity = "auto"
headroom = "auto"
page_bytes = "auto"

[device.cuda]
enabled = "auto"
capacity = "auto"
headroom = "auto"
page_bytes = "auto"

[device.hip]
enabled = "auto"
capacity = "auto"
headroom = "auto"
page_bytes = "auto"
)";

TEST(PrintConfig, ShowsEveryKeyWithItsDefault) { EXPECT_EQ(print_config(Config{}), defaults); }

TEST(PrintConfig, OfTheDefaultsParsesBackToThem) {
  ASSERT_EQ(verdict(defaults), "");
  EXPECT_EQ(*read_config(defaults), Config{});
}

TEST(PrintConfig, OfChangedValuesParsesBackToThem) {
  Config config;
  config.service = {.socket = "/tmp/with \"quotes\" \\ and \t\x7f \xc3\xa9.sock",
                    .socket_group = "wheel",
                    .admin_group = "admins",
                    .state_directory = "/srv/penstock",
                    .revoke_deadline = std::chrono::milliseconds(250),
                    .cooperative_deadline = std::chrono::minutes(2),
                    .on_unresponsive = OnUnresponsive::kill,
                    .allow_links = false};
  config.log = {.level = LogLevel::debug, .format = LogFormat::json};
  config.metrics.listen = ListenAddress{.address = "::1", .port = 0};
  config.reader = {.io = ReaderIo::pread, .ring_bytes = 1 * mib + 1, .bandwidth_bytes = 3 * gib};
  config.ebpf = ProbeMode::off;
  config.locked_host_bytes = 0;
  config.per_user_bytes = 12345678901;
  config.host = {
      .enabled = DeviceUse::on, .capacity_bytes = 8192 * mib, .headroom_bytes = 0, .page_bytes = 4 * kib};
  config.cuda = {
      .enabled = DeviceUse::off, .capacity_bytes = INT64_MAX, .headroom_bytes = 512 * mib, .page_bytes = {}};
  config.hip.page_bytes = 1 * gib;
  const std::string text = print_config(config);
  ASSERT_EQ(verdict(text), "") << text;
  EXPECT_EQ(*read_config(text), config) << text;

  config.metrics.listen.reset();
  EXPECT_EQ(*read_config(print_config(config)), config);
}

TEST(ConfigKeys, OfOneSectionStandTogetherAndAreFound) {
  std::string_view section;
  std::vector<std::string> seen;
  for (const ConfigKey& key : config_keys()) {
    EXPECT_EQ(find_key(key.path), &key);
    EXPECT_FALSE(key.allowed.empty());
    EXPECT_TRUE(is_section(key.section()));
    EXPECT_FALSE(is_section(key.path));
    if (key.section() == section) continue;
    section = key.section();
    EXPECT_EQ(std::ranges::count(seen, std::string(section)), 0) << section;
    seen.emplace_back(section);
  }
  EXPECT_EQ(find_key("service"), nullptr);
}

TEST(ConfigChanges, TellWhatAppliesAtOnce) {
  Config running, fresh;
  EXPECT_TRUE(config_changes(running, fresh).empty());
  fresh.log.level = LogLevel::debug;
  fresh.host.capacity_bytes = 1 * gib;
  const std::vector<ConfigChange> changes = config_changes(running, fresh);
  ASSERT_EQ(changes.size(), 2u);
  EXPECT_EQ(changes[0].key, "log.level");
  EXPECT_EQ(changes[0].before, "\"info\"");
  EXPECT_EQ(changes[0].after, "\"debug\"");
  EXPECT_TRUE(changes[0].at_once);
  EXPECT_EQ(changes[1].key, "device.host.capacity");
  EXPECT_FALSE(changes[1].at_once);
}

}  // namespace
}  // namespace penstock
