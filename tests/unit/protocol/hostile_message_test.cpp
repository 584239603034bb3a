// SPDX-License-Identifier: Apache-2.0
// Damaged datagrams. Each is copied to a heap block of exactly its size, so that AddressSanitizer sees a read behind it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "service/protocol/control_codec.hpp"
#include "service/protocol/device_codec.hpp"
#include "tests/support/random.hpp"
#include "tests/unit/protocol/sample_messages.hpp"

namespace penstock {
namespace {

using Bytes = std::vector<std::byte>;

// Kinds of failure that are unknown here read as `internal`, and of another protocol nothing but its number is known.
bool is_said_again_otherwise(const wire::ClientMessage& message) {
  const auto* const hello = std::get_if<wire::Hello>(&message);
  return hello != nullptr && hello->protocol != PSTW_PROTOCOL;
}
bool is_said_again_otherwise(const wire::ServiceMessage& message) {
  const auto* const hello = std::get_if<wire::HelloReply>(&message);
  return (hello != nullptr && hello->protocol != PSTW_PROTOCOL) || std::holds_alternative<Failure>(message) ||
         std::holds_alternative<wire::TableGone>(message);
}

// What is accepted has no bit that means nothing.
template <class Message>
void expect_canonical(const wire::Decoded<Message>& decoded, std::span<const std::byte> bytes) {
  const auto again = wire::encode(decoded.request, decoded.message);
  if (is_said_again_otherwise(decoded.message)) return;
  ASSERT_TRUE(again) << again.error().operation;
  EXPECT_TRUE(std::equal(again->begin(), again->end(), bytes.begin(), bytes.end()))
      << decoded.message.index();
}

// Decodes with every decoder.
void decode_everything(std::span<const std::byte> bytes, std::size_t descriptors) {
  const auto exact = std::make_unique<std::byte[]>(bytes.size());
  std::copy(bytes.begin(), bytes.end(), exact.get());
  const std::span<const std::byte> copy(exact.get(), bytes.size());
  if (const auto client = wire::decode_client_message(copy, descriptors)) expect_canonical(*client, copy);
  if (const auto service = wire::decode_service_message(copy, descriptors)) expect_canonical(*service, copy);
  (void)wire::decode_peer_message(copy);
  if (const auto device = wire::decode_device_message(copy, descriptors)) {
    if (const auto* grants = std::get_if<wire::GrantBatch>(&*device)) {
      for (std::size_t i = 0; i < grants->size(); ++i) EXPECT_NE((*grants)[i].table, 0u);
    }
  }
}

std::vector<Bytes> good_messages() {
  std::vector<Bytes> all;
  for (const auto& message : test::sample_client_messages()) all.push_back(*wire::encode(4711, message));
  for (const auto& message : test::sample_service_messages()) {
    all.push_back(*wire::encode(test::request_for(message), message));
  }
  const auto add = [&](std::span<const std::byte> bytes) { all.emplace_back(bytes.begin(), bytes.end()); };
  for (const auto& message : test::sample_peer_messages()) {
    const pstw_device_message wire = wire::to_wire(message);
    add(std::as_bytes(std::span(&wire, 1)));
  }
  wire::DeviceBuffer buffer;
  const std::vector<GrantedPage> pages(128, GrantedPage{1, 2, 3, true, -1});
  add(wire::encode_grants(1, pages, PeerCompletion{1, 0, FailureKind::internal, 128, 0}, buffer));
  add(wire::encode_grants(1, std::span(pages).first(1), std::nullopt, buffer));
  return all;
}

TEST(HostileMessage, AMessageCutAtAnyByteIsRefused) {
  for (const auto& message : test::sample_client_messages()) {
    const Bytes bytes = *wire::encode(4711, message);
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      EXPECT_FALSE(wire::decode_client_message(std::span(bytes).first(size), wire::descriptors_of(message)));
    }
  }
  for (const auto& message : test::sample_service_messages()) {
    const Bytes bytes = *wire::encode(test::request_for(message), message);
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      EXPECT_FALSE(wire::decode_service_message(std::span(bytes).first(size), wire::descriptors_of(message)));
    }
  }
}

TEST(HostileMessage, AMessageWithABehindIsRefused) {
  for (const auto& message : test::sample_client_messages()) {
    Bytes bytes = *wire::encode(4711, message);
    bytes.push_back({});
    EXPECT_FALSE(wire::decode_client_message(bytes, wire::descriptors_of(message)));
    pstw_header header;
    std::memcpy(&header, bytes.data(), sizeof header);
    header.bytes += 1;
    std::memcpy(bytes.data(), &header, sizeof header);
    EXPECT_FALSE(wire::decode_client_message(bytes, wire::descriptors_of(message))) << message.index();
  }
}

TEST(HostileMessage, AMessageWithAnotherNumberOfDescriptorsIsRefused) {
  for (const auto& message : test::sample_client_messages()) {
    const Bytes bytes = *wire::encode(4711, message);
    for (const std::size_t more : {1u, 2u, 200u}) {
      EXPECT_FALSE(wire::decode_client_message(bytes, wire::descriptors_of(message) + more));
    }
  }
  for (const auto& message : test::sample_service_messages()) {
    const Bytes bytes = *wire::encode(test::request_for(message), message);
    EXPECT_FALSE(wire::decode_service_message(bytes, wire::descriptors_of(message) + 1u));
  }
}

// The count in the header agrees with what came, but is not that of the message.
TEST(HostileMessage, AMessageThatAnnouncesADescriptorTooManyIsRefused) {
  for (const auto& message : test::sample_client_messages()) {
    Bytes bytes = *wire::encode(4711, message);
    pstw_header header;
    std::memcpy(&header, bytes.data(), sizeof header);
    header.descriptors += 1;
    std::memcpy(bytes.data(), &header, sizeof header);
    EXPECT_FALSE(wire::decode_client_message(bytes, header.descriptors)) << message.index();
  }
}

TEST(HostileMessage, AMessageOfTheOtherSideIsRefused) {
  for (const auto& message : test::sample_client_messages()) {
    EXPECT_FALSE(wire::decode_service_message(*wire::encode(1, message), wire::descriptors_of(message)));
  }
  for (const auto& message : test::sample_service_messages()) {
    const Bytes bytes = *wire::encode(test::request_for(message), message);
    EXPECT_FALSE(wire::decode_client_message(bytes, wire::descriptors_of(message)));
  }
}

TEST(HostileMessage, EveryFlippedBitIsAnsweredWithoutAFault) {
  for (const Bytes& good : good_messages()) {
    Bytes bytes = good;
    pstw_header header{};
    std::memcpy(&header, bytes.data(), std::min(sizeof header, bytes.size()));
    const std::size_t descriptors = std::min<std::size_t>(header.descriptors, 128);
    for (std::size_t bit = 0; bit < std::min<std::size_t>(bytes.size(), 256) * 8; ++bit) {
      bytes[bit / 8] ^= std::byte{1} << (bit % 8);
      decode_everything(bytes, descriptors);
      bytes[bit / 8] ^= std::byte{1} << (bit % 8);
    }
  }
}

TEST(HostileMessage, RandomDamageIsAnsweredWithoutAFault) {
  test::Random random(20261129);
  const auto good = good_messages();
  for (int round = 0; round < 20'000; ++round) {
    Bytes bytes = good[random.below(good.size())];
    const std::uint64_t changes = random.below(8);
    for (std::uint64_t i = 0; i < changes; ++i)
      bytes[random.below(bytes.size())] = std::byte(random.next() & 0xff);
    if (random.one_in(4)) bytes.resize(random.below(bytes.size() + 64));
    if (bytes.size() >= sizeof(pstw_header) && random.one_in(2)) {
      const auto size = static_cast<std::uint32_t>(bytes.size());
      std::memcpy(bytes.data() + offsetof(pstw_header, bytes), &size, sizeof size);
    }
    decode_everything(bytes, random.below(130));
  }
}

TEST(HostileMessage, NoiseIsNeverAMessage) {
  test::Random random(7);
  Bytes bytes(4096);
  for (int round = 0; round < 2'000; ++round) {
    for (std::byte& byte : bytes) byte = std::byte(random.next() & 0xff);
    const auto noise = std::span(bytes).first(random.below(bytes.size()));
    EXPECT_FALSE(wire::decode_client_message(noise, 0));
    EXPECT_FALSE(wire::decode_service_message(noise, 0));
    EXPECT_FALSE(wire::decode_peer_message(noise));
    EXPECT_FALSE(wire::decode_device_message(noise, 0));
  }
}

}  // namespace
}  // namespace penstock
