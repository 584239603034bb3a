// SPDX-License-Identifier: Apache-2.0
// Cases P01 and P02: something else under a checkpoint's name.
#include <cstring>
#include <string>

#include <gtest/gtest.h>

#include "tests/unit/core_parse/parse_bytes.hpp"

namespace penstock::test {
namespace {

using namespace std::string_literals;

const std::string oid = "4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393";

std::uint64_t first_length(const std::string& bytes) {
  std::uint64_t value = 0;
  std::memcpy(&value, bytes.data(), 8);
  return value;
}

TEST(CaseP01, LfsPointerIsRefusedByNameWithBothSizes) {
  const std::string pointer =
      "version https://git-lfs.github.com/spec/v1\noid sha256:" + oid + "\nsize 4976698592\n";
  ASSERT_EQ(pointer.size(), 135u);
  ASSERT_EQ(first_length(pointer), 2336927755350992246u);
  const auto refused = parse_file(pointer);
  ASSERT_EQ(kind_of(refused), FailureKind::lfs_pointer) << message_of(refused);
  EXPECT_NE(message_of(refused).find("Git-LFS pointer"), std::string::npos);
  EXPECT_NE(message_of(refused).find("135 bytes found"), std::string::npos);
  EXPECT_NE(message_of(refused).find("4976698592 bytes (4.6 GiB) wanted"), std::string::npos);
  EXPECT_NE(message_of(refused).find(oid), std::string::npos);
  EXPECT_NE(refused.error().hint.find("git lfs pull"), std::string::npos);
}

TEST(CaseP01, ADamagedPointerIsStillOne) {
  EXPECT_EQ(kind_of(parse_file("version https://git-lfs.github.com/spec/v1\n")), FailureKind::lfs_pointer);
  const auto strange =
      parse_file("version https://git-lfs.github.com/spec/v1\r\nsize 12x\r\noid \x1b[2J\r\n");
  EXPECT_EQ(kind_of(strange), FailureKind::lfs_pointer);
  EXPECT_EQ(message_of(strange).find('\x1b'), std::string::npos);
}

struct Foreign {
  std::string start;
  std::uint64_t length;  // What its first 8 bytes read as.
  FailureKind kind;
  std::string named;
};

class CaseP02 : public testing::TestWithParam<Foreign> {};

TEST_P(CaseP02, IsRefusedByWhatItIs) {
  const Foreign& foreign = GetParam();
  ASSERT_EQ(first_length(foreign.start), foreign.length);
  for (const char filler : {'\0', ' ', 'x'}) {
    std::string file = foreign.start;
    file.resize(16 << 20, filler);
    const auto refused = parse_file(file);
    EXPECT_EQ(kind_of(refused), foreign.kind) << message_of(refused);
    EXPECT_NE(message_of(refused).find(foreign.named), std::string::npos) << message_of(refused);
  }
}

INSTANTIATE_TEST_SUITE_P(
    WrongContent, CaseP02,
    testing::Values(Foreign{"<!DOCTYPE html>", 5789751444030890300u, FailureKind::html, "HTML"},
                    Foreign{"<html><head>", 7510946913960880188u, FailureKind::html, "HTML"},
                    Foreign{R"({"error":"Unauthorized"})", 2482168881970750075u, FailureKind::json_text,
                            "JSON text"},
                    Foreign{"PK\x03\x04\x00\x00\x08\x08"s, 578712552184433488u, FailureKind::zip, "zip"},
                    Foreign{"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46"s + "\xf9 j\xa8P\x19.", 5088219219985302144u,
                            FailureKind::pickle, "pickle"},
                    Foreign{"\x80\x04\x95\x00\x00\x00\x00\x00"s, 9766016u, FailureKind::pickle, "protocol 4"},
                    Foreign{"GGUF\x03\x00\x00\x00"s, 14064895815u, FailureKind::gguf, "GGUF"}));

TEST(CaseP02, OtherTextIsNoCheckpointEither) {
  EXPECT_EQ(kind_of(parse_file("\xef\xbb\xbf  <!doctype HTML><title>Sign in</title>")), FailureKind::html);
  EXPECT_EQ(kind_of(parse_file("[1, 2, 3, 4, 5]")), FailureKind::json_text);
  EXPECT_EQ(kind_of(parse_file("{}")), FailureKind::json_text);
  EXPECT_EQ(kind_of(parse_file("Not Found")), FailureKind::unknown_format);
  EXPECT_EQ(kind_of(parse_file("\x1f\x8b\x08\x08gzipped bytes"s)), FailureKind::unknown_format);
}

// 640 = 0x0280: the length field of a real file can begin with the bytes of a pickle.
TEST(CaseP02, AHeaderWhoseLengthLooksLikeAPickleIsAHeader) {
  for (const std::size_t length : {0x280u, 0x380u, 0x480u, 0x580u, 0x4b50u}) {
    std::string json(base_json);
    json.resize(length, ' ');
    const auto parsed = parse_json(json, 16);
    EXPECT_TRUE(parsed) << length << ": " << message_of(parsed);
  }
}

}  // namespace
}  // namespace penstock::test
