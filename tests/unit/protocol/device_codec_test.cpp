// SPDX-License-Identifier: Apache-2.0
#include "service/protocol/device_codec.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "tests/unit/protocol/sample_messages.hpp"

namespace penstock {
namespace {

using Wire = pstw_device_message;

std::span<const std::byte> bytes_of(const Wire& wire) { return std::as_bytes(std::span(&wire, 1)); }

TEST(DeviceCodec, GivesBackEachMessageOfAClient) {
  for (const auto& message : test::sample_peer_messages()) {
    const Wire wire = wire::to_wire(message);
    const auto decoded = wire::decode_peer_message(bytes_of(wire));
    ASSERT_TRUE(decoded) << message.index() << ": " << decoded.error().operation;
    EXPECT_EQ(decoded->message.index(), message.index());
    EXPECT_EQ(decoded->acknowledges, 0u);
    const Wire again = wire::to_wire(decoded->message);
    EXPECT_EQ(std::memcmp(&wire, &again, sizeof wire), 0) << message.index();
  }
}

TEST(DeviceCodec, GivesBackTheAcknowledgementThatAMessageCarries) {
  for (const auto& message : test::sample_peer_messages()) {
    if (std::holds_alternative<PeerGranted>(message)) continue;
    const Wire wire = wire::to_wire(message, 4711);
    const auto decoded = wire::decode_peer_message(bytes_of(wire));
    ASSERT_TRUE(decoded) << message.index() << ": " << decoded.error().operation;
    EXPECT_EQ(decoded->message.index(), message.index());
    EXPECT_EQ(decoded->acknowledges, 4711u);
  }
}

TEST(DeviceCodec, RefusesAnAcknowledgementOfNothing) {
  Wire wire = wire::to_wire(PeerMessage(PeerGranted{1}));
  wire.batch = 0;
  EXPECT_FALSE(wire::decode_peer_message(bytes_of(wire)));
}

TEST(DeviceCodec, KeepsEveryFieldOfARelease) {
  const Wire wire = wire::to_wire(PeerMessage(PeerRelease{1, 2, 3, 4, true}));
  const auto decoded = wire::decode_peer_message(bytes_of(wire));
  ASSERT_TRUE(decoded);
  const auto& release = std::get<PeerRelease>(decoded->message);
  EXPECT_EQ(release.request, 1u);
  EXPECT_EQ(release.table, 2u);
  EXPECT_EQ(release.page, 3u);
  EXPECT_EQ(release.generation, 4u);
  EXPECT_TRUE(release.drop_if_last);
}

// A field that its type doesn't use must stay free for later.
TEST(DeviceCodec, RefusesAMessageThatUsesAnothersField) {
  for (const auto& message : test::sample_peer_messages()) {
    const auto refuses = [&](auto change) {
      Wire wire = wire::to_wire(message);
      change(wire);
      return !wire::decode_peer_message(bytes_of(wire));
    };
    EXPECT_TRUE(refuses([](Wire& wire) { wire.reserved16 = 1; }));
    EXPECT_TRUE(refuses([](Wire& wire) { wire.reserved64 = 1; }));
    EXPECT_TRUE(refuses([](Wire& wire) { wire.flags |= 0x8000; }));
    EXPECT_TRUE(refuses([](Wire& wire) { wire.released_bytes = 1; }));
    EXPECT_TRUE(refuses([](Wire& wire) { wire.frames = 1; }));
    EXPECT_TRUE(refuses([](Wire& wire) { wire.magic += 1; }));
    EXPECT_TRUE(refuses([](Wire& wire) { wire.type = 0; }));
    EXPECT_TRUE(refuses([](Wire& wire) { wire.type = PSTW_REVOKE; }));
  }
}

TEST(DeviceCodec, RefusesARangeThatWrapsOrIsEmpty) {
  const auto accepts = [](std::uint32_t first, std::uint32_t count, std::uint64_t request,
                          std::uint32_t table) {
    const Wire wire = wire::to_wire(PeerMessage(PeerFault{request, table, first, count}));
    return wire::decode_peer_message(bytes_of(wire)).has_value();
  };
  EXPECT_TRUE(accepts(0, 1, 1, 1));
  EXPECT_TRUE(accepts(0, UINT32_MAX, 1, 1));
  EXPECT_TRUE(accepts(UINT32_MAX - 1, 1, 1, 1));
  EXPECT_FALSE(accepts(UINT32_MAX, 1, 1, 1));
  EXPECT_FALSE(accepts(2, UINT32_MAX - 1, 1, 1));
  EXPECT_FALSE(accepts(0, 0, 1, 1));
  EXPECT_FALSE(accepts(0, 1, 0, 1));
  EXPECT_FALSE(accepts(0, 1, 1, 0));
}

TEST(DeviceCodec, RefusesAGenerationThatNoPageCanHave) {
  const auto accepts = [](std::uint64_t generation) {
    const Wire wire = wire::to_wire(PeerMessage(PeerAcked{1, 1, generation}));
    return wire::decode_peer_message(bytes_of(wire)).has_value();
  };
  EXPECT_TRUE(accepts(1));
  EXPECT_TRUE(accepts(PSTW_ENTRY_GENERATION_MASK));
  EXPECT_FALSE(accepts(0));
  EXPECT_FALSE(accepts(PSTW_ENTRY_GENERATION_MASK + 1));
}

TEST(DeviceCodec, GivesBackABatchOfEverySize) {
  std::vector<GrantedPage> pages;
  wire::DeviceBuffer buffer;
  for (std::uint32_t size = 1; size <= PSTW_GRANTS_MAX; ++size) {
    pages.push_back(GrantedPage{size, size + 1, PSTW_ENTRY_GENERATION_MASK - size, size % 2 == 0, -1});
    const auto bytes = wire::encode_grants(size, pages, std::nullopt, buffer);
    const auto decoded = wire::decode_device_message(bytes, size);
    ASSERT_TRUE(decoded) << decoded.error().operation;
    const auto& batch = std::get<wire::GrantBatch>(*decoded);
    EXPECT_EQ(batch.batch(), size);
    EXPECT_FALSE(batch.completes());
    ASSERT_EQ(batch.size(), size);
    for (std::uint32_t i = 0; i < size; ++i) {
      const wire::GrantEntry entry = batch[i];
      EXPECT_EQ(entry.table, pages[i].table);
      EXPECT_EQ(entry.page, pages[i].page);
      EXPECT_EQ(entry.generation, pages[i].generation);
      EXPECT_EQ(entry.writable, pages[i].writable);
    }
    EXPECT_FALSE(wire::decode_device_message(bytes, size - 1));
    EXPECT_FALSE(wire::decode_device_message(bytes.first(bytes.size() - 1), size));
    EXPECT_FALSE(wire::decode_device_message(bytes.first(bytes.size() - 16), size));
  }
}

TEST(DeviceCodec, CarriesTheCompletionInsideItsLastBatch) {
  const GrantedPage page{1, 2, 3, false, -1};
  const PeerCompletion completion{9, PSTW_RESULT_DONE, FailureKind::internal, 5, 0};
  wire::DeviceBuffer buffer;
  const auto decoded =
      wire::decode_device_message(wire::encode_grants(1, std::span(&page, 1), completion, buffer), 1);
  ASSERT_TRUE(decoded);
  const auto& completes = std::get<wire::GrantBatch>(*decoded).completes();
  ASSERT_TRUE(completes);
  EXPECT_EQ(completes->request, 9u);
  EXPECT_EQ(completes->frames, 5u);
}

TEST(DeviceCodec, GivesBackRevokeCompletionAndClosing) {
  const Wire revoke = wire::to_wire(wire::RevokePage{1, 2, 3});
  const auto revoked = wire::decode_device_message(bytes_of(revoke), 0);
  ASSERT_TRUE(revoked);
  EXPECT_EQ(std::get<wire::RevokePage>(*revoked).generation, 3u);
  const Wire complete = wire::to_wire(PeerCompletion{4, PSTW_RESULT_FAILED, FailureKind::io_error, 6, 7});
  const auto completed = wire::decode_device_message(bytes_of(complete), 0);
  ASSERT_TRUE(completed);
  const auto& completion = std::get<PeerCompletion>(*completed);
  EXPECT_EQ(completion.request, 4u);
  EXPECT_EQ(completion.result, PSTW_RESULT_FAILED);
  EXPECT_EQ(completion.reason, FailureKind::io_error);
  EXPECT_EQ(completion.frames, 6u);
  EXPECT_EQ(completion.released_bytes, 7u);
  const Wire closing = wire::to_wire(wire::DeviceClosing{});
  const auto closed = wire::decode_device_message(bytes_of(closing), 0);
  ASSERT_TRUE(closed);
  EXPECT_TRUE(std::holds_alternative<wire::DeviceClosing>(*closed));
  EXPECT_FALSE(wire::decode_device_message(bytes_of(closing), 1));
}

TEST(DeviceCodec, ReadsAnUnknownReasonAsInternalAndRefusesAnUnknownResult) {
  Wire wire = wire::to_wire(PeerCompletion{4, PSTW_RESULT_FAILED, FailureKind::io_error, 0, 0});
  wire.reason = 250;
  const auto decoded = wire::decode_device_message(bytes_of(wire), 0);
  ASSERT_TRUE(decoded);
  EXPECT_EQ(std::get<PeerCompletion>(*decoded).reason, FailureKind::internal);
  wire.result = PSTW_RESULT_CANCELLED + 1;
  EXPECT_FALSE(wire::decode_device_message(bytes_of(wire), 0));
}

}  // namespace
}  // namespace penstock
