// SPDX-License-Identifier: Apache-2.0
#include <cerrno>
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include "bpf/pressure.hpp"
#include "bpf/pressure_edge.hpp"
#include "tests/support/literal_tree.hpp"

namespace penstock {
namespace {

using test::LiteralTree;

constexpr const char* calm =
    "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n";
constexpr const char* some_only = "some avg10=1.05 avg60=0.00 avg300=0.00 total=20217241\n";

TEST(PressureText, BothLinesAreRead) {
  const Result<Pressure> pressure = parse_pressure(
      "some avg10=12.34 avg60=0.00 avg300=0.00 total=20217241\nfull avg10=0.05 avg60=0.00 avg300=0.00 "
      "total=7");
  ASSERT_TRUE(pressure);
  EXPECT_EQ(pressure->some, (PressureLine{1234, std::chrono::microseconds(20217241)}));
  EXPECT_EQ(pressure->full, (PressureLine{5, std::chrono::microseconds(7)}));
}

TEST(PressureText, ALineThatIsCutOffIsNoLine) {
  EXPECT_FALSE(parse_pressure("some avg10=12.34 avg60=0.00 avg300=0.00 tot"));
  EXPECT_FALSE(parse_pressure("some avg10=12"));
  EXPECT_FALSE(parse_pressure("some"));
  EXPECT_FALSE(parse_pressure(""));
  EXPECT_FALSE(parse_pressure("some avg10=500.00 total=1\n"));
  EXPECT_FALSE(parse_pressure("some avg10=0.00 total=99999999999999999999999\n"));
  const Result<Pressure> half = parse_pressure("some avg10=1.00 total=5\nfull avg10=");
  ASSERT_TRUE(half);
  EXPECT_TRUE(half->some);
  EXPECT_FALSE(half->full);
}

// Ten minutes of polls, one a second.
std::vector<std::string> poll_600_times(PressureSource& source) {
  Warnings warnings;
  for (int poll = 0; poll < 600; ++poll) EXPECT_EQ(source.read(warnings), std::nullopt);
  EXPECT_FALSE(source.available());
  return warnings.take();
}

TEST(CaseC04, SwitchedOffIsAbsentAndSaidOnce) {
  PressureSource source("/proc/pressure/memory", [] {
    return Result<std::string_view>(Error{Errc::io, EOPNOTSUPP, "read"});
  });
  const std::vector<std::string> said = poll_600_times(source);
  ASSERT_EQ(said.size(), 1u);
  EXPECT_NE(said[0].find("switched off"), std::string::npos) << said[0];
}

TEST(CaseC04, NoFileNoPermissionAndAFolderAreAbsentAndSaidOnce) {
  const LiteralTree tree({{"denied/memory", calm}});
  tree.make_folder("folder/memory");
  std::filesystem::permissions(tree.path(), std::filesystem::perms(0755));
  std::filesystem::permissions(tree.path() + "/denied/memory", std::filesystem::perms::none);
  PressureSource missing = PressureSource::of_file(tree.root().get(), "missing/memory", "m");
  PressureSource folder = PressureSource::of_file(tree.root().get(), "folder/memory", "m");
  PressureSource denied = PressureSource::of_file(tree.root().get(), "denied/memory", "m");
  EXPECT_EQ(poll_600_times(missing),
            std::vector<std::string>{"m: No such file or directory; pressure is not known"});
  EXPECT_EQ(poll_600_times(folder), std::vector<std::string>{"m: Is a directory; pressure is not known"});
  const bool root = ::geteuid() == 0;
  ASSERT_TRUE(!root || ::seteuid(65534) == 0);
  EXPECT_EQ(poll_600_times(denied), std::vector<std::string>{"m: Permission denied; pressure is not known"});
  ASSERT_TRUE(!root || ::seteuid(0) == 0);
}

TEST(CaseC04, AFileWithOneLineGivesThatOneAndTheOtherIsAbsent) {
  const LiteralTree tree({{"cpu", some_only}});
  PressureSource source = PressureSource::of_file(tree.root().get(), "cpu", "cpu");
  Warnings warnings;
  const std::optional<Pressure> pressure = source.read(warnings);
  ASSERT_TRUE(pressure);
  EXPECT_TRUE(source.available());
  EXPECT_EQ(pressure->some, (PressureLine{105, std::chrono::microseconds(20217241)}));
  EXPECT_EQ(pressure->full, std::nullopt);
  EXPECT_TRUE(warnings.take().empty());
}

TEST(CaseC04, WhenReadsStartToSucceedOneLineSaysSo) {
  const LiteralTree tree;
  PressureSource source = PressureSource::of_file(tree.root().get(), "memory", "memory");
  Warnings warnings;
  for (int poll = 0; poll < 10; ++poll) (void)source.read(warnings);
  EXPECT_EQ(warnings.take().size(), 1u);
  tree.write("memory", calm);
  for (int poll = 0; poll < 10; ++poll) EXPECT_TRUE(source.read(warnings));
  EXPECT_EQ(warnings.take(), std::vector<std::string>{"memory: pressure is known now"});
  EXPECT_TRUE(source.available());
}

std::string total_of(std::uint64_t microseconds) {
  return "some avg10=0.00 avg60=0.00 avg300=0.00 total=" + std::to_string(microseconds) + "\n";
}

TEST(PressureEdge, WithoutATriggerItComparesWithTheLastLook) {
  const LiteralTree tree({{"memory", total_of(1'000'000)}});
  std::filesystem::permissions(tree.path(), std::filesystem::perms(0755));
  std::filesystem::permissions(tree.path() + "/memory", std::filesystem::perms(0444));
  // Root may write to any file, and a plain file takes any trigger.
  const bool root = ::geteuid() == 0;
  ASSERT_TRUE(!root || ::seteuid(65534) == 0);
  Result<PressureEdge> edge = PressureEdge::open(tree.root().get(), "memory", {});
  ASSERT_TRUE(!root || ::seteuid(0) == 0);
  ASSERT_TRUE(edge);
  EXPECT_FALSE(edge->armed());
  EXPECT_EQ(edge->fd(), -1);
  EXPECT_NE(edge->why().find("Permission denied"), std::string::npos) << edge->why();
  EXPECT_FALSE(edge->look());
  tree.write("memory", total_of(1'149'999));
  EXPECT_FALSE(edge->look());
  tree.write("memory", total_of(1'149'999 + 150'000));
  EXPECT_TRUE(edge->look());
  EXPECT_FALSE(edge->look());
}

TEST(PressureEdge, WhatCantBeReadIsNoEdge) {
  const LiteralTree tree;
  EXPECT_FALSE(PressureEdge::open(tree.root().get(), "memory", {}));
}

}  // namespace
}  // namespace penstock
