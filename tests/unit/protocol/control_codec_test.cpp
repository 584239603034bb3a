// SPDX-License-Identifier: Apache-2.0
#include "service/protocol/control_codec.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "tests/unit/protocol/sample_messages.hpp"

namespace penstock {
namespace {

using wire::decode_client_message;
using wire::decode_service_message;
using wire::descriptors_of;

using Bytes = std::vector<std::byte>;

template <class Message>
Bytes encoded(std::uint64_t request, const Message& message) {
  auto bytes = wire::encode(request, message);
  EXPECT_TRUE(bytes) << bytes.error().operation;
  return bytes ? *std::move(bytes) : Bytes();
}

template <class Wire>
Wire header_of(const Bytes& bytes) {
  Wire wire;
  std::memcpy(&wire, bytes.data(), sizeof wire);
  return wire;
}

TEST(ControlCodec, GivesBackEachMessageOfAClientByteForByte) {
  for (const auto& message : test::sample_client_messages()) {
    const Bytes bytes = encoded(4711, message);
    const auto decoded = decode_client_message(bytes, descriptors_of(message));
    ASSERT_TRUE(decoded) << message.index() << ": " << decoded.error().operation;
    EXPECT_EQ(decoded->request, 4711u);
    EXPECT_EQ(decoded->message.index(), message.index());
    EXPECT_EQ(encoded(4711, decoded->message), bytes) << message.index();
  }
}

TEST(ControlCodec, GivesBackEachMessageOfTheServiceByteForByte) {
  for (const auto& message : test::sample_service_messages()) {
    const std::uint64_t request = test::request_for(message);
    const Bytes bytes = encoded(request, message);
    const auto decoded = decode_service_message(bytes, descriptors_of(message));
    ASSERT_TRUE(decoded) << message.index() << ": " << decoded.error().operation;
    EXPECT_EQ(decoded->request, request);
    EXPECT_EQ(decoded->message.index(), message.index());
    EXPECT_EQ(encoded(request, decoded->message), bytes) << message.index();
  }
}

TEST(ControlCodec, KeepsEveryFieldOfAnOpenTable) {
  const auto message = std::get<wire::OpenTable>(test::sample_client_messages()[3]);
  const auto decoded = decode_client_message(encoded(1, wire::ClientMessage(message)), 0);
  ASSERT_TRUE(decoded);
  const auto& got = std::get<wire::OpenTable>(decoded->message);
  EXPECT_EQ(got.device, 3u);
  EXPECT_EQ(got.kind, TableKind::file);
  EXPECT_EQ(got.layout, wire::Layout::scattered);
  EXPECT_EQ(got.mode, RevokeMode::cooperative);
  EXPECT_TRUE(got.overlay);
  EXPECT_EQ(got.file, wire::all_files);
  EXPECT_EQ(got.checkpoints, std::vector<std::uint64_t>{7});
}

TEST(ControlCodec, CountsTheDescriptorsOfAnOpenCheckpoint) {
  const wire::OpenCheckpoint message{"m", {{"a", true}, {"b", false}, {"c", true}}, false};
  EXPECT_EQ(descriptors_of(wire::ClientMessage(message)), 5u);
  const Bytes bytes = encoded(1, wire::ClientMessage(message));
  EXPECT_TRUE(decode_client_message(bytes, 5));
  EXPECT_FALSE(decode_client_message(bytes, 4));
  EXPECT_FALSE(decode_client_message(bytes, 6));
}

TEST(ControlCodec, TakesSixtyFourFilesInOneMessageAndNoMore) {
  wire::OpenCheckpoint message{"m", std::vector<wire::OpenFile>(64, {"a", true}), true};
  const Bytes bytes = encoded(1, wire::ClientMessage(message));
  EXPECT_LE(bytes.size(), std::size_t{PSTW_MESSAGE_BYTES_MAX});
  EXPECT_TRUE(decode_client_message(bytes, 128));
  message.files.push_back({"b", true});
  EXPECT_EQ(wire::encode(1, wire::ClientMessage(message)).error().code, Errc::invalid);
}

TEST(ControlCodec, RefusesAGreetingThatUsesADeviceBehindTheLastOne) {
  Bytes bytes = encoded(1, test::sample_service_messages()[0]);
  EXPECT_TRUE(decode_service_message(bytes, 0));
  bytes[offsetof(pstw_hello_reply, device) + 2 * sizeof(pstw_device)] = std::byte{1};
  EXPECT_FALSE(decode_service_message(bytes, 0));
}

TEST(ControlCodec, ReadsTheProtocolNumberOfAHelloThatItDoesNotUnderstand) {
  Bytes bytes(sizeof(pstw_header) + 200);
  const pstw_header header{PSTW_MAGIC, PSTW_HELLO, 0xffff, static_cast<std::uint32_t>(bytes.size()), 0, 1};
  std::memcpy(bytes.data(), &header, sizeof header);
  const std::uint32_t protocol = 77;
  std::memcpy(bytes.data() + sizeof header, &protocol, sizeof protocol);
  const auto decoded = decode_client_message(bytes, 0);
  ASSERT_TRUE(decoded);
  EXPECT_EQ(std::get<wire::Hello>(decoded->message).protocol, 77u);
}

TEST(ControlCodec, KeepsBothNumbersOfARefusal) {
  const Bytes bytes = encoded(1, wire::ServiceMessage(wire::Refused{1, 77, "no"}));
  const auto decoded = decode_service_message(bytes, 0);
  ASSERT_TRUE(decoded);
  const auto& refused = std::get<wire::Refused>(decoded->message);
  EXPECT_EQ(refused.service_protocol, 1u);
  EXPECT_EQ(refused.client_protocol, 77u);
}

TEST(ControlCodec, MakesTextsFitInsteadOfFailing) {
  const std::string hostile = "a\nb\x1b[31m" + std::string(5000, 'x') + "\xff";
  const auto decoded = decode_service_message(
      encoded(1, wire::ServiceMessage(Failure{FailureKind::internal, hostile, hostile})), 0);
  ASSERT_TRUE(decoded);
  const auto& failure = std::get<Failure>(decoded->message);
  EXPECT_EQ(failure.message.substr(0, 9), "a?b?[31mx");
  EXPECT_EQ(failure.message.size(), std::size_t{PSTW_MESSAGE_TEXT_BYTES_MAX});
  EXPECT_EQ(failure.hint.size(), std::size_t{PSTW_HINT_TEXT_BYTES_MAX});
}

TEST(ControlCodec, ReadsAnUnknownKindOfFailureAsInternal) {
  Bytes bytes = encoded(1, wire::ServiceMessage(Failure{FailureKind::quota, "m", ""}));
  auto failure = header_of<pstw_failure>(bytes);
  failure.kind = 60'000;
  std::memcpy(bytes.data(), &failure, sizeof failure);
  const auto decoded = decode_service_message(bytes, 0);
  ASSERT_TRUE(decoded);
  EXPECT_EQ(std::get<Failure>(decoded->message).kind, FailureKind::internal);
}

TEST(ControlCodec, RefusesToEncodeARequestWithoutANumber) {
  EXPECT_FALSE(wire::encode(0, wire::ClientMessage(wire::CloseTable{1})));
  EXPECT_FALSE(wire::encode(0, wire::ServiceMessage(wire::Done{})));
  EXPECT_FALSE(wire::encode(5, wire::ServiceMessage(wire::Closing{})));
  EXPECT_TRUE(wire::encode(0, wire::ServiceMessage(Failure{})));
}

TEST(ControlCodec, SendsJsonOfTheGreatestSizeInlineAndNoLonger) {
  wire::QueryReply reply{std::string(wire::inline_json_bytes_max, ' '), 0};
  const Bytes bytes = encoded(1, wire::ServiceMessage(reply));
  EXPECT_EQ(bytes.size(), std::size_t{PSTW_MESSAGE_BYTES_MAX});
  EXPECT_TRUE(decode_service_message(bytes, 0));
  reply.json += ' ';
  EXPECT_FALSE(wire::encode(1, wire::ServiceMessage(reply)));
}

TEST(ControlCodec, FindsTheRequestNumberOfADamagedMessage) {
  Bytes bytes = encoded(4711, wire::ClientMessage(wire::CloseTable{1}));
  bytes.resize(bytes.size() - 3);
  EXPECT_FALSE(decode_client_message(bytes, 0));
  EXPECT_EQ(wire::request_of(bytes), 4711u);
  EXPECT_EQ(wire::request_of(std::span(bytes).first(10)), 0u);
}

TEST(ControlCodec, KeepsEachHoldingOfAReportAndItsPlace) {
  const auto message = test::sample_client_messages().back();
  const auto decoded = decode_client_message(encoded(1, message), 0);
  ASSERT_TRUE(decoded);
  const auto& holdings = std::get<wire::Report>(decoded->message).holdings;
  ASSERT_EQ(holdings.size(), 4u);
  EXPECT_EQ(holdings[0].device, 3u);
  EXPECT_EQ(holdings[0].bytes, 1ull << 34);
  EXPECT_EQ(holdings[2].place, wire::HoldingPlace::disk);
  EXPECT_EQ(holdings[2].device, std::nullopt);
  EXPECT_EQ(holdings[3].kind, wire::HoldingKind::other);
}

// A report with one field of its second holding changed.
Bytes changed_report(std::size_t offset, std::uint32_t value) {
  Bytes bytes = encoded(1, test::sample_client_messages().back());
  std::memcpy(bytes.data() + sizeof(pstw_report) + sizeof(pstw_holding) + offset, &value, sizeof value);
  return bytes;
}

TEST(ControlCodec, RefusesAReportThatIsNotInOrderOrNamesAHoldingTwice) {
  EXPECT_TRUE(decode_client_message(changed_report(offsetof(pstw_holding, device), 5), 0));
  EXPECT_FALSE(decode_client_message(changed_report(offsetof(pstw_holding, device), 3), 0));
  EXPECT_FALSE(decode_client_message(changed_report(offsetof(pstw_holding, device), 2), 0));
  wire::Report twice;
  twice.holdings.assign(2, {wire::HoldingKind::work, wire::HoldingPlace::anonymous, std::nullopt, 1});
  EXPECT_FALSE(wire::encode(1, wire::ClientMessage(twice)));
}

TEST(ControlCodec, RefusesAHoldingOfNoKindNoPlaceOrOnNoDevice) {
  EXPECT_FALSE(decode_client_message(changed_report(offsetof(pstw_holding, kind), 6), 0));
  EXPECT_FALSE(decode_client_message(changed_report(offsetof(pstw_holding, place), 5), 0));
  EXPECT_FALSE(decode_client_message(changed_report(offsetof(pstw_holding, device), PSTW_NO_DEVICE), 0));
  EXPECT_FALSE(decode_client_message(changed_report(offsetof(pstw_holding, place), PSTW_PLACE_DISK), 0));
  EXPECT_FALSE(decode_client_message(changed_report(offsetof(pstw_holding, reserved), 1), 0));
  wire::Report nowhere;
  nowhere.holdings.push_back({wire::HoldingKind::work, wire::HoldingPlace::device, std::nullopt, 1});
  EXPECT_FALSE(wire::encode(1, wire::ClientMessage(nowhere)));
}

TEST(ControlCodec, RefusesAReportOfMoreHoldingsThanItHasOrThanAreAllowed) {
  Bytes bytes = encoded(1, test::sample_client_messages().back());
  auto report = header_of<pstw_report>(bytes);
  for (const std::uint32_t count : {3u, 5u, 129u, 0xffffffffu}) {
    report.holdings = count;
    std::memcpy(bytes.data(), &report, sizeof report);
    EXPECT_FALSE(decode_client_message(bytes, 0)) << count;
  }
  wire::Report long_one;
  for (std::uint32_t i = 0; i < PSTW_HOLDINGS_MAX; ++i)
    long_one.holdings.push_back({wire::HoldingKind::work, wire::HoldingPlace::device, i, 1});
  EXPECT_TRUE(wire::encode(1, wire::ClientMessage(long_one)));
  long_one.holdings.push_back({wire::HoldingKind::other, wire::HoldingPlace::disk, std::nullopt, 1});
  EXPECT_FALSE(wire::encode(1, wire::ClientMessage(long_one)));
}

TEST(ControlCodec, RefusesATableWhoseFieldsBelongToAnotherKind) {
  const auto messages = test::sample_client_messages();
  const auto refuses = [&](std::size_t sample, auto change) {
    auto open = std::get<wire::OpenTable>(messages[sample]);
    change(open);
    const wire::ClientMessage message(open);
    return !decode_client_message(encoded(1, message), descriptors_of(message));
  };
  using Open = wire::OpenTable;
  for (const std::size_t sample : {3u, 4u, 5u}) EXPECT_FALSE(refuses(sample, [](Open&) {}));
  // A file's.
  EXPECT_TRUE(refuses(3, [](Open& open) { open.checkpoints.clear(); }));
  EXPECT_TRUE(refuses(3, [](Open& open) { open.checkpoints = {1, 2}; }));
  EXPECT_TRUE(refuses(3, [](Open& open) { open.bytes = 1; }));
  EXPECT_TRUE(refuses(3, [](Open& open) { open.manifest_bytes = 1; }));
  // An assembled one.
  EXPECT_TRUE(refuses(4, [](Open& open) { open.checkpoints.clear(); }));
  EXPECT_TRUE(refuses(4, [](Open& open) { open.manifest_bytes = 0; }));
  EXPECT_TRUE(refuses(4, [](Open& open) { open.bytes = 1; }));
  EXPECT_TRUE(refuses(4, [](Open& open) { open.file = 1; }));
  EXPECT_TRUE(refuses(4, [](Open& open) { open.layout = wire::Layout::identity; }));
  // An anonymous one.
  EXPECT_TRUE(refuses(5, [](Open& open) { open.checkpoints = {1}; }));
  EXPECT_TRUE(refuses(5, [](Open& open) { open.bytes = 0; }));
  EXPECT_TRUE(refuses(5, [](Open& open) { open.manifest_bytes = 1; }));
  EXPECT_TRUE(refuses(5, [](Open& open) { open.overlay = true; }));
  EXPECT_TRUE(refuses(5, [](Open& open) { open.file = 1; }));
}

// Each case changes one field of a good table reply.
TEST(ControlCodec, RefusesATableWhoseNumbersDoNotAgree) {
  const wire::ServiceMessage message = test::sample_service_messages()[5];
  const Bytes good = encoded(1, message);
  const auto refuses = [&](auto change) {
    Bytes bytes = good;
    auto reply = header_of<pstw_table_reply>(bytes);
    change(reply);
    std::memcpy(bytes.data(), &reply, sizeof reply);
    return !decode_service_message(bytes, descriptors_of(message));
  };
  EXPECT_FALSE(refuses([](pstw_table_reply&) {}));
  EXPECT_TRUE(refuses([](pstw_table_reply& reply) { reply.table = 0; }));
  EXPECT_TRUE(refuses([](pstw_table_reply& reply) { reply.overlay_table = 0; }));
  EXPECT_TRUE(refuses([](pstw_table_reply& reply) { reply.overlay_table = reply.table; }));
  EXPECT_TRUE(refuses([](pstw_table_reply& reply) { reply.pages = 0; }));
  EXPECT_TRUE(refuses([](pstw_table_reply& reply) { reply.pages = 4; }));
  EXPECT_TRUE(refuses([](pstw_table_reply& reply) { reply.layout = PSTW_LAYOUT_AUTOMATIC; }));
  EXPECT_TRUE(refuses([](pstw_table_reply& reply) { reply.page_bytes = 4095; }));
  EXPECT_TRUE(refuses([](pstw_table_reply& reply) { reply.page_bytes = 0; }));
  EXPECT_TRUE(refuses([](pstw_table_reply& reply) { reply.table_bytes = 0; }));
  EXPECT_TRUE(refuses([](pstw_table_reply& reply) { reply.table_bytes = UINT64_MAX; }));
  EXPECT_TRUE(refuses([](pstw_table_reply& reply) { reply.shift_bytes = 4096; }));
  EXPECT_TRUE(refuses([](pstw_table_reply& reply) { reply.tensor_offsets = 0; }));
  EXPECT_TRUE(refuses([](pstw_table_reply& reply) { reply.header.flags = 0; }));
}

}  // namespace
}  // namespace penstock
