// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tests/unit/config/read_config.hpp"

namespace penstock {
namespace {

using test::read_config;
using test::verdict;

std::string with(std::string_view section, std::string_view line) {
  return "[" + std::string(section) + "]\n" + std::string(line) + "\n";
}

void expect_refused(std::string_view section, std::string_view line,
                    std::initializer_list<std::string_view> parts) {
  const std::string told = verdict(with(section, line));
  EXPECT_TRUE(told.starts_with("penstock.toml:2: " + std::string(section) + ".")) << line << " -> " << told;
  for (const std::string_view part : parts)
    EXPECT_NE(told.find(part), std::string::npos) << part << " in " << told;
}

TEST(ConfigSizes, AreStringsWithUnitsOrBareBytes) {
  EXPECT_EQ(read_config(with("reader", "ring_bytes = \"64MiB\""))->reader.ring_bytes, 64 * mib);
  EXPECT_EQ(read_config(with("reader", "ring_bytes = \" 1 GiB \""))->reader.ring_bytes, 1 * gib);
  EXPECT_EQ(read_config(with("reader", "ring_bytes = 2_097_152"))->reader.ring_bytes, 2 * mib);
  EXPECT_EQ(read_config(with("reader", "ring_bytes = \"2097152\""))->reader.ring_bytes, 2 * mib);
  EXPECT_EQ(read_config(with("reader", "bandwidth = 0"))->reader.bandwidth_bytes, 0u);
  EXPECT_EQ(read_config(with("device.cuda", "capacity = \"20 GiB\""))->cuda.capacity_bytes, 20 * gib);
  EXPECT_EQ(read_config(with("device.cuda", "capacity = \"auto\""))->cuda.capacity_bytes, std::nullopt);
  EXPECT_EQ(read_config(with("host", "locked_bytes = \"0\""))->locked_host_bytes, 0u);
}

TEST(ConfigSizes, OutOfRangeAreRefusedWithTheRange) {
  expect_refused("reader", "ring_bytes = 4096",
                 {"reader.ring_bytes: 4096 bytes are out of range", "\"1MiB\" to \"16GiB\""});
  expect_refused("reader", "ring_bytes = 0", {"out of range", "\"1MiB\" to \"16GiB\""});
  expect_refused("reader", "ring_bytes = \"auto\"", {"does not start with a digit", "\"1MiB\" to \"16GiB\""});
  expect_refused("reader", "ring_bytes = 1.5", {"a number with a fraction", "\"1MiB\" to \"16GiB\""});
  expect_refused("reader", "ring_bytes = true", {"true or false", "\"1MiB\" to \"16GiB\""});
  expect_refused("reader", "ring_bytes = [1]", {"an array"});
  expect_refused("reader", "ring_bytes = 2026-11-29", {"a date"});
  expect_refused("reader", "bandwidth = 20", {"20 bytes are out of range", "or 0 (no cap)"});
  expect_refused("device.host", "capacity = 0", {"out of range", "or \"auto\""});
  expect_refused("device.host", "page_bytes = \"12MiB\"", {"no power of two", "\"4KiB\" to \"1GiB\""});
}

TEST(ConfigDurations, NeedAUnitAndARange) {
  EXPECT_EQ(read_config(with("service", "revoke_deadline = \"1500ms\""))->service.revoke_deadline,
            std::chrono::milliseconds(1500));
  expect_refused("service", "revoke_deadline = \"0s\"", {"out of range", "\"1ms\" to \"1h\""});
  expect_refused("service", "revoke_deadline = \"2h\"", {"out of range", "\"1ms\" to \"1h\""});
  expect_refused("service", "revoke_deadline = \"-1s\"", {"is negative", "\"1ms\" to \"1h\""});
  expect_refused("service", "revoke_deadline = \"5\"", {"has no unit", "\"1ms\" to \"1h\""});
  expect_refused("service", "revoke_deadline = 5", {"found a bare number", "\"1ms\" to \"1h\""});
  expect_refused("service", "cooperative_deadline = \"1 day\"", {"unknown unit"});
}

TEST(ConfigChoices, RefuseToTimeFaultsWithoutProbes) {
  expect_refused("probes", "time_faults = true\nebpf = \"off\"", {"probes.time_faults", "\"off\""});
  EXPECT_TRUE(read_config(with("probes", "time_faults = true"))->time_faults);
  EXPECT_EQ(read_config(with("probes", "ebpf = \"required\""))->ebpf, ProbeMode::required);
}

TEST(ConfigChoices, ListWhatIsAllowed) {
  EXPECT_EQ(read_config(with("reader", "io = \"uring\""))->reader.io, ReaderIo::uring);
  EXPECT_EQ(read_config(with("probes", "ebpf = \"off\""))->ebpf, ProbeMode::off);
  EXPECT_EQ(read_config(with("device.hip", "enabled = \"off\""))->hip.enabled, DeviceUse::off);
  EXPECT_EQ(read_config(with("device.host", "enabled = true"))->host.enabled, DeviceUse::on);
  expect_refused("log", "level = \"warn\"",
                 {"\"warn\" is not known", "\"error\", \"warning\", \"info\", \"debug\""});
  expect_refused("log", "level = 3", {"found a bare number", "\"error\", \"warning\""});
  expect_refused("log", "format = \"JSON\"", {"\"text\", \"json\""});
  expect_refused("service", "on_unresponsive = \"\"", {"\"wait\", \"kill\""});
  expect_refused("service", "allow_links = \"true\"", {"without quotes", "found a string"});
  expect_refused("device.host", "enabled = \"yes\"", {"\"auto\", \"on\", \"off\""});
}

TEST(ConfigPaths, AreAbsoluteAndFitTheKernel) {
  const std::string longest = "/" + std::string(106, 'a');
  EXPECT_EQ(read_config(with("service", "socket = \"" + longest + "\""))->service.socket, longest);
  expect_refused("service", "socket = \"" + longest + "a\"", {"is 108 bytes long", "at most 107 bytes"});
  expect_refused("service", "socket = \"run/penstock.sock\"", {"absolute path"});
  expect_refused("service", "socket = \"\"", {"absolute path"});
  expect_refused("service", "socket = \"/a\\u0000b\"", {"absolute path"});
  expect_refused("service", "socket_group = \"two words\"", {"is no group name"});
  expect_refused("service", "admin_group = 0", {"the name of a group"});
}

TEST(ConfigRelations, BetweenKeysNameTheKeyThatIsSet) {
  EXPECT_EQ(verdict("[device.host]\ncapacity = \"4MiB\"\n"),
            "penstock.toml:2: device.host.capacity: 4MiB is less than one page of 8MiB: wants that at least, "
            "or a smaller "
            "device.host.page_bytes\n");
  EXPECT_EQ(verdict("[device.host]\ncapacity = \"4MiB\"\npage_bytes = \"1MiB\"\n"), "");
  EXPECT_EQ(verdict("[device.cuda]\nheadroom = \"8GiB\"\n\ncapacity = \"8GiB\"\n"),
            "penstock.toml:2: device.cuda.headroom: 8GiB leave nothing of the capacity of 8GiB\n");
}

}  // namespace
}  // namespace penstock
