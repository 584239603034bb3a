// SPDX-License-Identifier: Apache-2.0
// The case of a configuration that silently does nothing: texts.
#include <algorithm>

#include <gtest/gtest.h>

#include "service/config/nearest.hpp"
#include "tests/unit/config/read_config.hpp"

namespace penstock {
namespace {

using test::read_config;
using test::verdict;

TEST(CaseS06, AMisspeltKeyIsAnErrorWithItsLineAndTheNearestKnownOne) {
  EXPECT_EQ(verdict("[reader]\n\nring_byte = \"20GiB\"\n"),
            "penstock.toml:3: reader.ring_byte: unknown key; the nearest known one is reader.ring_bytes "
            "(ring_bytes in "
            "section [reader])\n");
  EXPECT_NE(
      verdict("[device.cuda]\ncapcity = \"20GiB\"\n").find("nearest known one is device.cuda.capacity "),
      std::string::npos);
  EXPECT_NE(verdict("vram_limt = \"20GiB\"\n")
                .find("penstock.toml:1: vram_limt: unknown key; the nearest known one is "),
            std::string::npos);
}

TEST(CaseS06, AKeyInTheWrongSectionIsAnErrorThatNamesItsSection) {
  EXPECT_NE(verdict("[log]\nsocket = \"/tmp/s\"\n").find("(socket in section [service])"), std::string::npos);
  EXPECT_NE(verdict("listen = \"\"\n").find("(listen in section [metrics])"), std::string::npos);
  EXPECT_NE(
      verdict("[devices.host]\ncapacity = \"1GiB\"\n").find("nearest known one is device.host.capacity "),
      std::string::npos);
  EXPECT_NE(verdict("[host]\nring_bytes = \"1GiB\"\n").find("nearest known one is reader.ring_bytes "),
            std::string::npos);
}

TEST(CaseS06, AnUnknownSectionIsAnErrorEvenWhenItIsEmpty) {
  EXPECT_NE(verdict("[gpu]\n").find("penstock.toml:1: gpu: unknown key"), std::string::npos);
  EXPECT_EQ(verdict("[device]\n[device.host]\n[log]\n"), "");
}

TEST(CaseS06, AKeyInQuotesIsNotTakenForAPath) {
  EXPECT_NE(verdict("\"service.socket\" = \"/tmp/s\"\n").find("unknown key"), std::string::npos);
  const std::string told = verdict("\"a\\nb\" = 1\n");
  EXPECT_NE(told.find("unknown key"), std::string::npos) << told;
  EXPECT_EQ(std::ranges::count(told, '\n'), 1) << told;
}

TEST(CaseS06, AValueInPlaceOfASectionIsAnError) {
  EXPECT_NE(verdict("service = 1\n")
                .find("penstock.toml:1: service: is a section, written [service], found a bare"),
            std::string::npos);
  EXPECT_NE(verdict("[[log]]\n").find("log: is a section, written [log], found an array"), std::string::npos);
  EXPECT_NE(verdict("[log.level]\n").find("log.level: wants one of"), std::string::npos);
}

TEST(CaseS06, NumbersThatAreNoSizesAreRefusedWithTheAllowedRange) {
  const auto refused = [](std::string_view value) {
    return verdict("[host]\nlocked_bytes = " + std::string(value) + "\n");
  };
  for (const std::string_view value : {"-1", "\"-1\"", "\"20GB\"", "\"20 gb\"", "20000000000000000000",
                                       "\"20000000000000000000\"", "\"1.5GiB\"", "\"\"", "\"-20GiB\""}) {
    const std::string told = refused(value);
    EXPECT_TRUE(told.starts_with("penstock.toml:2: host.locked_bytes: ")) << value << " -> " << told;
    EXPECT_NE(told.find("from \"1\" to \"9223372036854775807\", or 0 (none)"), std::string::npos) << told;
  }
  EXPECT_NE(refused("-1").find("-1 is negative"), std::string::npos);
  EXPECT_NE(refused("\"20GB\"").find("\"20GB\" has the unknown unit \"GB\""), std::string::npos);
  EXPECT_NE(refused("20000000000000000000").find("does not fit into 64 bits"), std::string::npos);
  EXPECT_EQ(refused("\"20 GiB\""), "");
  EXPECT_EQ(refused("0"), "");
}

TEST(CaseS06, TheSameKeyTwiceInOneFileIsAnErrorWithBothLines) {
  EXPECT_EQ(verdict("[log]\nlevel = \"info\"\n# again\nlevel = \"debug\"\n"),
            "penstock.toml:4: log.level: is set twice in one file; the first time is in line 2; this key "
            "takes \"error\", "
            "\"warning\", \"info\", \"debug\"\n");
  EXPECT_NE(verdict("log.level = \"info\"\n[log]\nlevel = \"debug\"\n").find("set twice"), std::string::npos);
  EXPECT_NE(verdict("[log]\nlevel = \"info\"\n[host]\n[log]\nformat = \"text\"\n")
                .find("penstock.toml:4: log: is set twice in one file; the first time is in line 2"),
            std::string::npos);
}

TEST(CaseS06, TheSameKeyInALaterTextOverrides) {
  const std::vector<ConfigText> texts = {{"a", "[log]\nlevel = \"error\"\nformat = \"json\"\n"},
                                         {"b", "[log]\nlevel = \"debug\"\n"}};
  const auto config = parse_config(texts);
  ASSERT_EQ(verdict(config), "");
  EXPECT_EQ(config->log.level, LogLevel::debug);
  EXPECT_EQ(config->log.format, LogFormat::json);
}

TEST(CaseS06, AllProblemsAreToldAtOnceInTheOrderOfTheirLines) {
  const std::string told = verdict(
      "[log]\nlevel = \"loud\"\nlevel = \"info\"\nfromat = \"text\"\n[reader]\nring_bytes = "
      "99999999999999999999\n"
      "bandwidth = -1\n");
  EXPECT_EQ(std::ranges::count(told, '\n'), 5) << told;
  std::size_t at = 0;
  for (const std::string_view part : {":2: log.level", ":3: log.level", ":4: log.fromat",
                                      ":6: reader.ring_bytes", ":7: reader.bandwidth"}) {
    const std::size_t found = told.find(part, at);
    ASSERT_NE(found, std::string::npos) << part << " in\n" << told;
    at = found;
  }
}

TEST(CaseS06, AnErrorInTheGrammarIsToldWithItsLineAndWhatStandsBefore) {
  const std::string told = verdict("[log]\nlevel = \"loud\"\nformat = \"text\n[reader]\nio = \"x\"\n");
  EXPECT_NE(told.find("penstock.toml:2: log.level"), std::string::npos) << told;
  EXPECT_NE(told.find("penstock.toml:3: log.format"), std::string::npos) << told;
  EXPECT_EQ(std::ranges::count(told, '\n'), 2) << told;
  EXPECT_NE(verdict("[&log]\n").find("penstock.toml:1: "), std::string::npos);
  EXPECT_NE(verdict("level\n").find("penstock.toml:1: "), std::string::npos);
  EXPECT_NE(verdict(std::string_view("a = 1\n\0", 7)).find("penstock.toml:2: "), std::string::npos);
  EXPECT_NE(verdict("[log]\nlevel = \"\xff\"\n").find("penstock.toml:2: "), std::string::npos);
}

TEST(CaseS06, TypographicQuotesAreRefusedAndOtherLettersStandInStringsAndComments) {
  const std::string told = verdict(
      "[host]\nlocked_bytes = \xe2\x80\x9c"
      "1GiB\xe2\x80\x9d\n");
  EXPECT_TRUE(told.starts_with("penstock.toml:2: host.locked_bytes: holds a character that is not ASCII"))
      << told;
  const auto config = read_config(
      "# caf\xc3\xa9\n[service]\nsocket = \"/tmp/\xc3\xa9\"  # \xe2\x82\xac\nadmin_group = '\xc3\xa9'\n");
  ASSERT_EQ(verdict(config), "");
  EXPECT_EQ(config->service.socket, "/tmp/\xc3\xa9");
  EXPECT_EQ(config->service.admin_group, "\xc3\xa9");
  for (const std::string_view text :
       {"\xc3\xa9 = 1\n", "[\xc3\xa9]\n", "a = 1\xc3\xa9\n", "a = -\"\xc3\xa9\"\n",
        "a = [\na=\"\xc3\xa9\"]\n", "a = \"\"\"\n\\\n\xc3\xa9\"\"\"\n"}) {
    EXPECT_NE(verdict(text).find("not ASCII"), std::string::npos) << text;
  }
}

TEST(CaseS06, AControlCharacterIsNamedByItsNumber) {
  EXPECT_EQ(verdict("[log]\nlevel = \"\x1b[31m\"\n").find("\x1b"), std::string::npos);
  EXPECT_NE(verdict("[log]\nlevel = \"\x1b[31m\"\n")
                .find("penstock.toml:2: log.level: holds the control character 0x1b"),
            std::string::npos);
}

TEST(CaseS06, EmptyTextGivesTheDefaults) {
  for (const std::string_view text : {"", "\n", "# nothing\n", "\xef\xbb\xbf", "\r\n"}) {
    ASSERT_EQ(verdict(text), "");
    EXPECT_EQ(*read_config(text), Config{});
  }
}

TEST(CaseS06, AByteOrderMarkAndCarriageReturnsAreAccepted) {
  const auto config =
      read_config("\xef\xbb\xbf[log]\r\nlevel = \"debug\"\r\n\r\n[host]\r\nlocked_bytes = \"1GiB\"\r\n");
  ASSERT_EQ(verdict(config), "");
  EXPECT_EQ(config->log.level, LogLevel::debug);
  EXPECT_EQ(config->locked_host_bytes, 1 * gib);
  EXPECT_NE(verdict("\xef\xbb\xbf[log]\r\nlevle = \"debug\"\r\n").find(":2: log.levle: "), std::string::npos);
}

TEST(CaseS06, ARemovedKeySaysWhatReplacedIt) {
  const std::vector<RemovedKey> removed = {{"reader.speed", "use reader.bandwidth"},
                                           {"pin_limit", "use host.locked_bytes"}};
  const std::vector<ConfigText> texts = {{"penstock.toml", "pin_limit = 0\n[reader]\nspeed = \"1GiB\"\n"}};
  EXPECT_EQ(verdict(parse_config(texts, removed)),
            "penstock.toml:1: pin_limit: is no longer a key: use host.locked_bytes\n"
            "penstock.toml:3: reader.speed: is no longer a key: use reader.bandwidth\n");
  for (const RemovedKey& key : removed_keys()) {
    const std::vector<ConfigText> one = {{"f", std::string(key.key) + " = 1\n"}};
    EXPECT_NE(verdict(parse_config(one)).find(key.replacement), std::string::npos);
  }
}

TEST(CaseS06, AHostileTextIsRefusedWithOneLine) {
  const std::string deep = "a" + [] {
    std::string parts;
    for (int i = 0; i < 100'000; ++i) parts += ".a";
    return parts;
  }();
  EXPECT_EQ(verdict(deep + " = 1\n"), "penstock.toml:1: " + deep + ": the line is longer than 4096 bytes\n");
  EXPECT_EQ(verdict(std::string(2 * mib, '\n')), "penstock.toml: is larger than 1048576 bytes\n");
  EXPECT_EQ(std::ranges::count(verdict("x = " + std::string(3000, '[')), '\n'), 1);
  std::string many = "[log]\n";
  for (int i = 0; i < 1000; ++i) many += "level = \"info\"\n";
  EXPECT_LE(std::ranges::count(verdict(many), '\n'), 32);
}

TEST(EditDistance, CountsInsertionsDeletionsReplacementsAndSwaps) {
  EXPECT_EQ(edit_distance("", ""), 0u);
  EXPECT_EQ(edit_distance("capacity", "capacity"), 0u);
  EXPECT_EQ(edit_distance("capcity", "capacity"), 1u);
  EXPECT_EQ(edit_distance("capacityy", "capacity"), 1u);
  EXPECT_EQ(edit_distance("kapacity", "capacity"), 1u);
  EXPECT_EQ(edit_distance("cpaacity", "capacity"), 1u);
  EXPECT_EQ(edit_distance("abc", ""), 3u);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
}

}  // namespace
}  // namespace penstock
