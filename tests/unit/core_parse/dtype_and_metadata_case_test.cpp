// SPDX-License-Identifier: Apache-2.0
// Cases P05 and P06: narrow dtypes, empty tensors, and the reserved metadata entry.
#include <gtest/gtest.h>

#include "tests/unit/core_parse/parse_bytes.hpp"

namespace penstock::test {
namespace {

constexpr std::string_view narrow_json = R"({"w.e5m2":{"dtype":"F8_E5M2","shape":[3],"data_offsets":[0,3]},)"
                                         R"("w.e8m0":{"dtype":"F8_E8M0","shape":[2],"data_offsets":[3,5]},)"
                                         R"("w.f4":{"dtype":"F4","shape":[2,8],"data_offsets":[5,13]},)"
                                         R"("w.f6":{"dtype":"F6_E2M3","shape":[4],"data_offsets":[13,16]},)"
                                         R"("z.empty":{"dtype":"F32","shape":[0],"data_offsets":[16,16]},)"
                                         R"("s.scalar":{"dtype":"F32","shape":[],"data_offsets":[16,20]}})";

TEST(CaseP05, NarrowDtypesEmptyTensorsAndScalarsHaveTheirSizes) {
  ASSERT_EQ(narrow_json.size(), 367u);
  const auto file = with_header(narrow_json, 20);
  ASSERT_EQ(file.size(), 395u);
  const auto parsed = parse_file(file);
  ASSERT_TRUE(parsed) << message_of(parsed);
  EXPECT_EQ(parsed->tensors().size(), 6u);
  EXPECT_EQ(parsed->tensor_bytes(), 20u);
  EXPECT_EQ(parsed->find("w.f4")->extent.length, 8u);
  EXPECT_EQ(parsed->find("w.f6")->extent.length, 3u);
  EXPECT_EQ(parsed->find("z.empty")->extent, (Extent{.offset = 375 + 16, .length = 0}));
  EXPECT_TRUE(parsed->find("s.scalar")->shape.empty());
  EXPECT_EQ(parsed->find("s.scalar")->extent.length, 4u);
}

TEST(CaseP05, HalfABytePacksToWholeBytesOrIsRefused) {
  constexpr std::string_view json = R"({"w":{"dtype":"F4","shape":[1,3],"data_offsets":[0,2]}})";
  ASSERT_EQ(json.size(), 55u);
  const auto refused = parse_json(json, 2);
  EXPECT_EQ(kind_of(refused), FailureKind::misaligned_dtype);
  EXPECT_EQ(message_of(refused), R"(tensor "w" (F4 1x3) has 12 bits, which is not whole bytes)");
}

TEST(CaseP05, ATensorWithoutItsBytesIsRefused) {
  constexpr std::string_view json = R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,0]}})";
  ASSERT_EQ(json.size(), 54u);
  const auto refused = parse_json(json, 0);
  EXPECT_EQ(kind_of(refused), FailureKind::size_mismatch);
  EXPECT_EQ(message_of(refused), R"(tensor "w" (F32 1) needs 4 bytes, its offsets give 0)");
}

TEST(CaseP05, AnUnknownDtypeIsNamedWithItsTensor) {
  constexpr std::string_view json = R"({"w":{"dtype":"I4","shape":[2,8],"data_offsets":[0,8]}})";
  ASSERT_EQ(json.size(), 55u);
  const auto refused = parse_json(json, 8);
  EXPECT_EQ(kind_of(refused), FailureKind::unknown_dtype);
  EXPECT_EQ(message_of(refused), R"(tensor "w" has the unknown dtype "I4")");
}

std::string with_metadata(std::string_view value) {
  return R"({"__metadata__":)" + std::string(value) + "," + std::string(base_json.substr(1));
}

TEST(CaseP06, AnEmptyAbsentOrNullMetadataIsNone) {
  ASSERT_EQ(with_metadata("{}").size(), 75u);
  ASSERT_EQ(with_header(with_metadata("{}"), 16).size(), 99u);
  for (const std::string& json : {with_metadata("{}"), std::string(base_json), with_metadata("null")}) {
    const auto parsed = parse_json(json, 16);
    ASSERT_TRUE(parsed) << message_of(parsed);
    EXPECT_EQ(parsed->tensors().size(), 1u);
    EXPECT_EQ(parsed->tensor_bytes(), 16u);
    EXPECT_TRUE(parsed->metadata().empty());
  }
}

TEST(CaseP06, AValueThatIsNoStringIsRefusedWithItsKey) {
  for (const auto& [value, key] :
       {std::pair{R"({"n":0})", R"("n")"}, std::pair{R"({"a":{"b":"c"}})", R"("a")"},
        std::pair{R"({"x":null})", R"("x")"}, std::pair{R"({"x":["y"]})", R"("x")"}}) {
    const auto refused = parse_json(with_metadata(value), 16);
    EXPECT_EQ(kind_of(refused), FailureKind::invalid_metadata);
    EXPECT_EQ(message_of(refused).find("metadata values must be strings"), 0u) << message_of(refused);
    EXPECT_NE(message_of(refused).find(key), std::string::npos) << message_of(refused);
  }
  for (const char* value : {"7", "\"text\"", "[]", "true"}) {
    EXPECT_EQ(kind_of(parse_json(with_metadata(value), 16)), FailureKind::invalid_metadata) << value;
  }
}

TEST(CaseP06, TheReservedNameIsNeverATensor) {
  const auto refused = parse_json(with_metadata(R"({"dtype":"I32","shape":[1],"data_offsets":[16,20]})"), 20);
  EXPECT_EQ(kind_of(refused), FailureKind::invalid_metadata) << message_of(refused);
  const auto escaped =
      parse_json(R"({"\u005f_metadata__":{"dtype":"I32","shape":[1],"data_offsets":[0,4]}})", 4);
  EXPECT_EQ(kind_of(escaped), FailureKind::invalid_metadata) << message_of(escaped);
}

TEST(CaseP06, MetadataAloneIsAFileWithoutTensors) {
  constexpr std::string_view json = R"({"__metadata__":{"k":"v"}})";
  ASSERT_EQ(json.size(), 26u);
  const auto parsed = parse_json(json, 0);
  ASSERT_TRUE(parsed) << message_of(parsed);
  EXPECT_EQ(parsed->file_bytes(), 34u);
  EXPECT_TRUE(parsed->tensors().empty());
  EXPECT_EQ(parsed->tensor_bytes(), 0u);
  using Pairs = std::vector<std::pair<std::string, std::string>>;
  EXPECT_EQ(parsed->metadata(), (Pairs{{"k", "v"}}));
}

TEST(CaseP06, RepeatedMetadataIsRefused) {
  EXPECT_EQ(kind_of(parse_json(R"({"__metadata__":{},"__metadata__":{}})", 0)),
            FailureKind::invalid_metadata);
  EXPECT_EQ(kind_of(parse_json(R"({"__metadata__":null,"__metadata__":{}})", 0)),
            FailureKind::invalid_metadata);
  EXPECT_EQ(kind_of(parse_json(R"({"__metadata__":{"k":"a","\u006b":"b"}})", 0)),
            FailureKind::invalid_metadata);
}

TEST(CaseP06, WhitespaceAroundTheHeaderIsAccepted) {
  EXPECT_TRUE(parse_json("{}\r \t\n", 0));
  EXPECT_TRUE(parse_json("\t\n{}", 0));
  EXPECT_TRUE(parse_json("\t\n{}\r \t\n", 0));
  EXPECT_FALSE(parse_json("{}\v", 0));
}

}  // namespace
}  // namespace penstock::test
