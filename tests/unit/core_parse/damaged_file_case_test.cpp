// SPDX-License-Identifier: Apache-2.0
// Cases P03 and P04: files that are too short, too long, or never filled.
#include <gtest/gtest.h>

#include "tests/unit/core_parse/parse_bytes.hpp"

namespace penstock::test {
namespace {

std::vector<std::byte> base_file() {
  auto file = with_header(base_json, 16);
  EXPECT_EQ(base_json.size(), 57u);
  EXPECT_EQ(file.size(), 81u);
  return file;
}

Outcome<CheckpointIndex> cut_to(std::size_t size) {
  const auto file = base_file();
  return parse_file(std::span(file).first(size));
}

TEST(CaseP03, ACutInsideTheLengthFieldSaysSo) {
  EXPECT_EQ(kind_of(cut_to(0)), FailureKind::empty_file);
  EXPECT_NE(message_of(cut_to(0)).find("too short for the length field"), std::string::npos);
  EXPECT_EQ(kind_of(cut_to(7)), FailureKind::truncated);
  EXPECT_EQ(message_of(cut_to(7)), "too short for the length field: needs 8 bytes, has 7, 1 missing");
}

TEST(CaseP03, ACutInsideTheHeaderSaysWhatTheHeaderNeeds) {
  EXPECT_EQ(kind_of(cut_to(8)), FailureKind::truncated);
  EXPECT_EQ(message_of(cut_to(8)), "header is cut: needs 65 bytes, has 8, 57 missing");
  EXPECT_EQ(kind_of(cut_to(40)), FailureKind::truncated);
  EXPECT_EQ(message_of(cut_to(40)), "header is cut: needs 65 bytes, has 40, 25 missing");
}

TEST(CaseP03, ACutInsideTheDataSaysWhatIsMissing) {
  EXPECT_EQ(kind_of(cut_to(65)), FailureKind::truncated);
  EXPECT_EQ(message_of(cut_to(65)), "data is cut: needs 81 bytes, has 65, 16 missing");
  EXPECT_EQ(kind_of(cut_to(79)), FailureKind::truncated);
  EXPECT_EQ(message_of(cut_to(79)), "data is cut: needs 81 bytes, has 79, 2 missing");
}

TEST(CaseP03, AFileOfZerosWasNeverFilled) {
  const auto refused = parse_file(std::vector<std::byte>(81));
  EXPECT_EQ(kind_of(refused), FailureKind::preallocated);
  EXPECT_EQ(message_of(refused), "header length 0, file looks preallocated and never filled (81 bytes)");
  auto head_only = base_file();
  std::fill_n(head_only.begin(), 8, std::byte{0});
  EXPECT_EQ(kind_of(parse_file(head_only)), FailureKind::preallocated);
}

TEST(CaseP03, ZerosAreLegalValues) {
  auto file = base_file();
  std::fill(file.begin() + 65, file.end(), std::byte{0});
  const auto parsed = parse_file(file);
  ASSERT_TRUE(parsed) << message_of(parsed);
  EXPECT_EQ(parsed->tensors().size(), 1u);
  EXPECT_EQ(parsed->tensor_bytes(), 16u);
  EXPECT_EQ(parsed->data_offset(), 65u);
  EXPECT_EQ(parsed->tensors()[0].extent, (Extent{.offset = 65, .length = 16}));
}

TEST(CaseP04, ExtraBytesAreAnotherKindThanMissingOnes) {
  auto file = base_file();
  file.resize(84);
  const auto longer = parse_file(file);
  EXPECT_EQ(kind_of(longer), FailureKind::trailing_bytes);
  EXPECT_EQ(message_of(longer), "3 extra bytes after offset 81: the file has 84");
  EXPECT_EQ(kind_of(cut_to(79)), FailureKind::truncated);
}

}  // namespace
}  // namespace penstock::test
