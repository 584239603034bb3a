// SPDX-License-Identifier: Apache-2.0
// The rules of the safetensors reference reader, and the places where this one is stricter.
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/unit/core_parse/parse_bytes.hpp"

namespace penstock::test {
namespace {

std::string tensor(std::string_view name, std::string_view dtype, std::string_view shape,
                   std::string_view offsets) {
  return fmt::format(R"("{}":{{"dtype":"{}","shape":{},"data_offsets":{}}})", name, dtype, shape, offsets);
}

std::string object(std::initializer_list<std::string> members) {
  std::string json;
  for (const std::string& member : members) json += (json.empty() ? "{" : ",") + member;
  return json + "}";
}

FailureKind kind(std::initializer_list<std::string> members, std::uint64_t data_bytes) {
  return kind_of(parse_json(object(members), data_bytes));
}

TEST(SafetensorsParser, RefusesALengthAboveTheLimitBeforeAllocating) {
  for (const std::uint64_t length :
       {header_bytes_max + 1, UINT64_MAX, UINT64_MAX - 7, std::uint64_t{1} << 63}) {
    std::vector<std::byte> file(64, std::byte{1});
    for (std::size_t index = 0; index < 8; ++index)
      file[index] = static_cast<std::byte>(length >> (8 * index));
    EXPECT_EQ(kind_of(parse_file(file)), FailureKind::header_too_large) << length;
  }
}

TEST(SafetensorsParser, RefusesAFileThatNoPageTableCanHold) {
  const auto file = with_header("{}", identify_bytes);
  EXPECT_TRUE(identify(file, file_bytes_max));
  EXPECT_EQ(identify(file, file_bytes_max + 1).error().kind, FailureKind::unsupported);
}

TEST(SafetensorsParser, RefusesWhatIsNoStrictJson) {
  for (const std::string& json :
       {std::string("["), std::string("[]"), std::string("7"), std::string("{"), std::string("{\"a\""),
        std::string("\xef\xbb\xbf{}"), std::string("{}x"), std::string("{}\0", 3), std::string("{}{}"),
        std::string("{,}"), std::string("{'a':1}"), std::string("{\"a\":}"), std::string(R"({"a\q":1})"),
        std::string("{\"__metadata__\":{\"a\":\"\n\"}}"), std::string(R"({"__metadata__":{"a":"\ud800"}})"),
        std::string("{\"\xff\":1}"), std::string("{\"__metadata__\":{\"a\":\"b\"},}"), std::string("  ")}) {
    EXPECT_EQ(kind_of(parse_json(json, 0)), FailureKind::invalid_header) << json;
  }
}

TEST(SafetensorsParser, RefusesDuplicateNamesAfterUnescaping) {
  const std::string first = tensor("a", "U8", "[4]", "[0,4]");
  EXPECT_EQ(kind({first, tensor("a", "U8", "[4]", "[4,8]")}, 8), FailureKind::duplicate_tensor);
  EXPECT_EQ(kind({first, tensor("a", "I32", "[1]", "[4,8]")}, 8), FailureKind::duplicate_tensor);
  EXPECT_EQ(kind({first, tensor("\\u0061", "U8", "[4]", "[4,8]")}, 8), FailureKind::duplicate_tensor);
  EXPECT_EQ(kind({first, first}, 4), FailureKind::duplicate_tensor);
  EXPECT_TRUE(parse_json(object({first, tensor("A", "U8", "[4]", "[4,8]")}), 8));
}

TEST(SafetensorsParser, RefusesHolesAndOverlaps) {
  EXPECT_EQ(kind({tensor("a", "U8", "[4]", "[4,8]")}, 8), FailureKind::hole);
  EXPECT_EQ(kind({tensor("a", "U8", "[4]", "[0,4]"), tensor("b", "U8", "[4]", "[5,9]")}, 9),
            FailureKind::hole);
  EXPECT_EQ(kind({tensor("a", "U8", "[4]", "[0,4]"), tensor("b", "U8", "[4]", "[3,7]")}, 7),
            FailureKind::overlap);
  EXPECT_EQ(kind({tensor("a", "U8", "[4]", "[0,4]"), tensor("b", "U8", "[4]", "[0,4]")}, 4),
            FailureKind::overlap);
  EXPECT_EQ(kind({tensor("a", "U8", "[4]", "[4,0]")}, 4), FailureKind::invalid_header);
  const auto hole =
      parse_json(object({tensor("a", "U8", "[4]", "[0,4]"), tensor("b", "U8", "[4]", "[6,10]")}), 10);
  EXPECT_EQ(message_of(hole), R"(bytes 4 to 6 of the data belong to no tensor, before tensor "b" (U8 4))");
}

TEST(SafetensorsParser, AcceptsTensorsInAnyOrderAndSortsThemByOffset) {
  const auto parsed =
      parse_json(object({tensor("a", "U8", "[4]", "[3,7]"), tensor("b", "U8", "[3]", "[0,3]")}), 7);
  ASSERT_TRUE(parsed) << message_of(parsed);
  EXPECT_EQ(parsed->tensors()[0].name, "b");
  EXPECT_EQ(parsed->tensors()[1].name, "a");
}

TEST(SafetensorsParser, AnEmptyTensorStandsWhereTheOthersAllowIt) {
  const std::string first = tensor("a", "U8", "[4]", "[0,4]"), second = tensor("b", "U8", "[4]", "[4,8]");
  for (const char* offsets : {"[0,0]", "[4,4]", "[8,8]"}) {
    EXPECT_TRUE(parse_json(object({first, second, tensor("z", "F32", "[3,0]", offsets)}), 8)) << offsets;
  }
  EXPECT_EQ(kind({first, second, tensor("z", "F32", "[0]", "[2,2]")}, 8), FailureKind::overlap);
  EXPECT_EQ(kind({first, second, tensor("z", "F32", "[0]", "[9,9]")}, 8), FailureKind::hole);
}

TEST(SafetensorsParser, RefusesSizesThatOverflowInAnyOrder) {
  constexpr std::string_view big = "9223372036854775807";
  EXPECT_EQ(kind({tensor("a", "U8", "[4294967296,4294967296]", "[0,0]")}, 0), FailureKind::overflow);
  EXPECT_EQ(kind({tensor("a", "F64", "[9223372036854775807,2]", "[0,8]")}, 8), FailureKind::overflow);
  for (const auto& [shape, is_legal] :
       std::initializer_list<std::pair<std::string, bool>>{{fmt::format("[0,{0},{0}]", big), true},
                                                           {fmt::format("[{0},{0},0]", big), true},
                                                           {fmt::format("[{0},0,{0}]", big), true},
                                                           {"[0,9223372036854775808]", false},
                                                           {"[9223372036854775808,0]", false}}) {
    const auto parsed = parse_json(object({tensor("a", "U8", shape, "[0,0]")}), 0);
    EXPECT_EQ(parsed.has_value(), is_legal) << shape << message_of(parsed);
    EXPECT_EQ(kind_of(parsed), is_legal ? FailureKind::internal : FailureKind::overflow);
  }
}

TEST(SafetensorsParser, RefusesOffsetsPastTheEndOfNumbers) {
  EXPECT_EQ(kind({tensor("a", "U8", "[18446744073709551615]", "[0,18446744073709551615]")}, 4),
            FailureKind::overflow);
  const std::uint64_t bytes = (std::uint64_t{1} << 60) - 1;
  const auto refused =
      parse_json(object({tensor("a", "U8", fmt::format("[{}]", bytes), fmt::format("[0,{}]", bytes))}), 4);
  EXPECT_EQ(kind_of(refused), FailureKind::truncated) << message_of(refused);
}

TEST(SafetensorsParser, RefusesFieldsThatAreMissingRepeatedOrOfTheWrongKind) {
  for (const std::string& body :
       {std::string("7"),
        std::string("null"),
        std::string("[]"),
        std::string("{}"),
        std::string(R"({"dtype":"U8","shape":[4]})"),
        std::string(R"({"dtype":"U8","data_offsets":[0,4]})"),
        std::string(R"({"shape":[4],"data_offsets":[0,4]})"),
        std::string(R"({"dtype":"U8","dtype":"U8","shape":[4],"data_offsets":[0,4]})"),
        std::string(R"({"dtype":"U8","shape":[4],"shape":[4],"data_offsets":[0,4]})"),
        std::string(R"({"dtype":"U8","shape":[4],"data_offsets":[0,4],"data_offsets":[0,4]})"),
        std::string(R"({"dtype":7,"shape":[4],"data_offsets":[0,4]})"),
        std::string(R"({"dtype":"U8","shape":4,"data_offsets":[0,4]})"),
        std::string(R"({"dtype":"U8","shape":["4"],"data_offsets":[0,4]})"),
        std::string(R"({"dtype":"U8","shape":[-4],"data_offsets":[0,4]})"),
        std::string(R"({"dtype":"U8","shape":[4.0],"data_offsets":[0,4]})"),
        std::string(R"({"dtype":"U8","shape":[4e0],"data_offsets":[0,4]})"),
        std::string(R"({"dtype":"U8","shape":[4],"data_offsets":[0]})"),
        std::string(R"({"dtype":"U8","shape":[4],"data_offsets":[]})"),
        std::string(R"({"dtype":"U8","shape":[4],"data_offsets":[0,4,4]})"),
        std::string(R"({"dtype":"U8","shape":[4],"data_offsets":[-1,3]})"),
        std::string(R"({"dtype":"U8","shape":[4],"data_offsets":[0,18446744073709551616]})"),
        std::string(R"({"dtype":"U8","shape":[4],"data_offsets":null})")}) {
    const auto refused = parse_json(R"({"a":)" + body + "}", 4);
    EXPECT_EQ(kind_of(refused), FailureKind::invalid_header) << body << message_of(refused);
  }
}

TEST(SafetensorsParser, DtypeNamesAreExact) {
  for (const char* name : {"f32", "F16 ", "", "FLOAT", "F8_E4M3FN", "U8\\u0000"}) {
    EXPECT_EQ(kind({tensor("a", name, "[0]", "[0,0]")}, 0), FailureKind::unknown_dtype) << name;
  }
}

TEST(SafetensorsParser, SkipsUnknownFieldsWithinBounds) {
  const std::string known = R"("dtype":"U8","shape":[4],"data_offsets":[0,4])";
  EXPECT_TRUE(parse_json(R"({"a":{"x":{"y":[1,2.5,null,true,"z"]},)" + known + "}}", 4));
  const std::string deep = std::string(127, '[') + std::string(127, ']');
  EXPECT_FALSE(parse_json(R"({"a":{"x":)" + deep + "," + known + "}}", 4));
  const std::string fits = std::string(100, '[') + std::string(100, ']');
  EXPECT_TRUE(parse_json(R"({"a":{"x":)" + fits + "," + known + "}}", 4));
}

TEST(SafetensorsParser, BoundsTheNumberOfValues) {
  std::string many(header_values_max + 1, ',');
  const auto refused = parse_json(R"({"a":{"x":[)" + many + "]}}", 0);
  EXPECT_EQ(message_of(refused), "header has more than 8000000 values");
}

TEST(SafetensorsParser, BoundsTheRank) {
  std::string ones = "[1";
  for (std::size_t rank = 1; rank < tensor_rank_max; ++rank) ones += ",1";
  EXPECT_TRUE(parse_json(object({tensor("a", "U8", ones + "]", "[0,1]")}), 1));
  EXPECT_EQ(kind({tensor("a", "U8", ones + ",1]", "[0,1]")}, 1), FailureKind::invalid_header);
}

TEST(SafetensorsParser, TakesAnyNameAndPrintsItSafely) {
  EXPECT_TRUE(parse_json(object({tensor("", "U8", "[1]", "[0,1]")}), 1));
  EXPECT_TRUE(parse_json(object({tensor("../../etc/passwd", "U8", "[1]", "[0,1]")}), 1));
  const auto zero = parse_json(object({tensor("a\\u0000b", "U8", "[1]", "[0,1]")}), 1);
  ASSERT_TRUE(zero);
  EXPECT_NE(zero->find(std::string_view("a\0b", 3)), nullptr);
  const auto refused = parse_json(object({tensor("\\u001b[31m\\n", "U8", "[1]", "[0,2]")}), 2);
  EXPECT_EQ(message_of(refused), R"(tensor "\u001b[31m\u000a" (U8 1) needs 1 bytes, its offsets give 2)");
}

TEST(SafetensorsParser, AnswersWhenTheFileChangedBetweenTheSteps) {
  auto file = with_header(base_json, 16);
  const auto plan = identify(file, file.size());
  ASSERT_TRUE(plan);
  file[0] = std::byte{56};
  const auto refused = parse_header(std::span(file).first(plan->header_bytes), file.size());
  EXPECT_EQ(kind_of(refused), FailureKind::changed_while_read);
}

TEST(SafetensorsParser, KeepsTheOrderOfMetadata) {
  const auto parsed = parse_json(R"({"__metadata__":{"z":"1","a":"2"}})", 0);
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->metadata()[0].first, "z");
  EXPECT_EQ(parsed->metadata()[1].second, "2");
}

}  // namespace
}  // namespace penstock::test
