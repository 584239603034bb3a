// SPDX-License-Identifier: Apache-2.0
#include "dataplane/base/units.hpp"

#include <cstdint>

#include <gtest/gtest.h>

namespace penstock {
namespace {

TEST(ParseBytes, ReadsIecUnitsAndBareNumbers) {
  EXPECT_EQ(*parse_bytes("0"), 0u);
  EXPECT_EQ(*parse_bytes("4096"), 4096u);
  EXPECT_EQ(*parse_bytes("7B"), 7u);
  EXPECT_EQ(*parse_bytes("1KiB"), 1024u);
  EXPECT_EQ(*parse_bytes("512MiB"), 512 * mib);
  EXPECT_EQ(*parse_bytes(" 20 GiB "), 20 * gib);
  EXPECT_EQ(*parse_bytes("3TiB"), 3 * tib);
  EXPECT_EQ(*parse_bytes("9223372036854775807"), static_cast<std::uint64_t>(INT64_MAX));
}

TEST(ParseBytes, RefusesWithTheValueAndTheAllowedRange) {
  for (const char* text :
       {"", " ", "-1", "-1GiB", "1.5GiB", "1,5GiB", "1GB", "1G", "1kb", "1gib", "GiB", "+1", "0x10",
        "1 GiB x", "9223372036854775808", "8388608TiB", "18446744073709551616", "1e3", "1\nGiB"}) {
    const auto refused = parse_bytes(text);
    ASSERT_FALSE(refused) << text;
    EXPECT_EQ(refused.error().kind, FailureKind::invalid_argument);
    EXPECT_NE(refused.error().message.find("9223372036854775807"), std::string::npos)
        << refused.error().message;
    EXPECT_EQ(refused.error().message.find('\n'), std::string::npos);
  }
  EXPECT_EQ(parse_bytes("1GB").error().message.substr(0, 32), "\"1GB\" has the unknown unit \"GB\":");
  EXPECT_EQ(parse_bytes("-1").error().message.substr(0, 17), "\"-1\" is negative:");
}

TEST(ParseDuration, ReadsUnits) {
  EXPECT_EQ(*parse_duration("1s"), 1'000'000'000u);
  EXPECT_EQ(*parse_duration("250ms"), 250'000'000u);
  EXPECT_EQ(*parse_duration("2min"), 120'000'000'000u);
  EXPECT_EQ(*parse_duration("1 h"), 3'600'000'000'000u);
  EXPECT_EQ(*parse_duration("10us"), 10'000u);
  EXPECT_EQ(*parse_duration("3ns"), 3u);
  EXPECT_EQ(*parse_duration("0"), 0u);
}

TEST(ParseDuration, RefusesWhatHasNoClearUnit) {
  for (const char* text : {"", "5", "-5s", "1.5s", "1m", "1S", "9223372037s", "s", "1d"}) {
    EXPECT_FALSE(parse_duration(text)) << text;
  }
}

TEST(FormatBytes, KeepsOneDecimalAndSwitchesUnitsInTime) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(1024), "1.0 KiB");
  EXPECT_EQ(format_bytes(3221225472), "3.0 GiB");
  EXPECT_EQ(format_bytes(mib - 1), "1.0 MiB");
  EXPECT_EQ(format_bytes(UINT64_MAX), "16.0 EiB");
}

}  // namespace
}  // namespace penstock
