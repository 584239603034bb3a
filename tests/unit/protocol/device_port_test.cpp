// SPDX-License-Identifier: Apache-2.0
#include "service/protocol/device_port.hpp"

#include <gtest/gtest.h>

#include <vector>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dataplane/base/memfd.hpp"
#include "service/protocol/socket_io.hpp"
#include "tests/unit/protocol/allocation_count.hpp"
#include "tests/unit/protocol/sample_messages.hpp"

namespace penstock {
namespace {

struct Ends {
  DevicePort port;
  UniqueFd client;
};

Ends connected() {
  auto pair = make_socket_pair();
  EXPECT_TRUE(pair);
  return Ends{DevicePort(std::move(pair->first)), std::move(pair->second)};
}

Result<> say(const Ends& ends, const PeerMessage& message) {
  const pstw_device_message wire = wire::to_wire(message);
  return send_message(ends.client.get(), std::as_bytes(std::span(&wire, 1)));
}

TEST(DevicePort, ReceivesWhatAClientSaysInItsOrder) {
  Ends ends = connected();
  const auto messages = test::sample_peer_messages();
  for (const auto& message : messages) ASSERT_TRUE(say(ends, message));
  for (const auto& message : messages) {
    const auto received = ends.port.receive();
    ASSERT_TRUE(received);
    ASSERT_TRUE(*received);
    EXPECT_EQ((*received)->message.index(), message.index());
  }
  const auto nothing = ends.port.receive();
  ASSERT_TRUE(nothing);
  EXPECT_FALSE(*nothing);
}

TEST(DevicePort, SendsGrantsRevokesAndCompletionsInOneOrder) {
  Ends ends = connected();
  const auto frame = create_memfd("frame", 8192);
  ASSERT_TRUE(frame);
  const GrantedPage pages[] = {{1, 2, 3, false, frame->get()}, {1, 3, 4, true, frame->get()}};
  ASSERT_TRUE(ends.port.send_grants(1, pages, PeerCompletion{9}));
  ASSERT_TRUE(ends.port.send_revoke(1, 2, 3));
  ASSERT_TRUE(ends.port.send_completion(PeerCompletion{10, PSTW_RESULT_OFFLOADED}));
  ASSERT_TRUE(ends.port.send_closing());

  wire::DeviceBuffer buffer;
  UniqueFds descriptors;
  const auto next = [&]() -> wire::DeviceMessage {
    const auto length = receive_message(ends.client.get(), buffer, descriptors);
    EXPECT_TRUE(length);
    const auto message = wire::decode_device_message(std::span(buffer).first(*length), descriptors.size());
    EXPECT_TRUE(message);
    return *message;
  };
  const auto grants = next();
  ASSERT_TRUE(std::holds_alternative<wire::GrantBatch>(grants));
  EXPECT_EQ(std::get<wire::GrantBatch>(grants)[1].page, 3u);
  ASSERT_TRUE(std::get<wire::GrantBatch>(grants).completes());
  EXPECT_EQ(std::get<wire::GrantBatch>(grants).completes()->request, 9u);
  EXPECT_EQ(*size_of(descriptors[1]), 8192u);
  EXPECT_EQ(std::get<wire::RevokePage>(next()).page, 2u);
  EXPECT_EQ(std::get<PeerCompletion>(next()).result, PSTW_RESULT_OFFLOADED);
  EXPECT_TRUE(std::holds_alternative<wire::DeviceClosing>(next()));
}

TEST(DevicePort, DoesNotAllocateOncePagesFlow) {
  Ends ends = connected();
  const auto frame = create_memfd("frame", 4096);
  ASSERT_TRUE(frame);
  const std::vector<GrantedPage> pages(PSTW_GRANTS_MAX, GrantedPage{1, 2, 3, false, frame->get()});
  wire::DeviceBuffer buffer;
  UniqueFds descriptors;
  const std::uint64_t before = test::allocations();
  bool good = true;
  for (int round = 0; round < 100; ++round) {
    good = good && say(ends, PeerFault{1, 1, 2, 1}).has_value() && ends.port.receive().has_value();
    good = good && ends.port.send_grants(1, pages, PeerCompletion{1}).has_value();
    const auto length = receive_message(ends.client.get(), buffer, descriptors);
    good =
        good && length && wire::decode_device_message(std::span(buffer).first(*length), descriptors.size());
    good = good && say(ends, PeerGranted{1}).has_value() && ends.port.receive().has_value();
  }
  EXPECT_EQ(test::allocations(), before);
  EXPECT_TRUE(good);
}

TEST(DevicePort, CallsGarbageAViolation) {
  Ends ends = connected();
  const auto refused = [&](std::size_t bytes) {
    const std::vector<std::byte> garbage(bytes, std::byte{0x5a});
    EXPECT_TRUE(send_message(ends.client.get(), garbage));
    const auto received = ends.port.receive();
    return !received && received.error().code == Errc::protocol;
  };
  EXPECT_TRUE(refused(1));
  EXPECT_TRUE(refused(63));
  EXPECT_TRUE(refused(64));
  EXPECT_TRUE(refused(65));
  EXPECT_TRUE(refused(60'000));
}

TEST(DevicePort, CallsADescriptorFromAClientAViolation) {
  Ends ends = connected();
  const pstw_device_message wire = wire::to_wire(PeerMessage(PeerGranted{1}));
  const int descriptors[] = {0};
  ASSERT_TRUE(send_message(ends.client.get(), std::as_bytes(std::span(&wire, 1)), descriptors));
  EXPECT_EQ(ends.port.receive().error().code, Errc::protocol);
}

TEST(DevicePort, TellsAHangUpFromSilence) {
  Ends ends = connected();
  ASSERT_TRUE(ends.port.receive());
  ends.client.reset();
  EXPECT_EQ(ends.port.receive().error().code, Errc::closed);
  EXPECT_EQ(ends.port.send_revoke(1, 1, 1).error().code, Errc::closed);
}

TEST(DevicePort, IsBusyTowardsAClientThatDoesNotRead) {
  Ends ends = connected();
  Result<> sent;
  int messages = 0;
  while ((sent = ends.port.send_revoke(1, 1, 1)) && messages < 100'000) ++messages;
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().code, Errc::busy);
  ASSERT_TRUE(say(ends, PeerIdle{1, 1}));
  EXPECT_TRUE(*ends.port.receive()) << "a full direction does not stop the other";
}

// As an unprivileged user with a small limit, in a child: root is not limited.
TEST(DevicePort, TellsTooManyUnreadDescriptorsFromAFullSocket) {
  if (::geteuid() != 0) GTEST_SKIP() << "requires root, to become another user";
  Ends ends = connected();
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const rlimit limit{64, 64};
    if (::setrlimit(RLIMIT_NOFILE, &limit) != 0 || ::setgid(65'534) != 0 || ::setuid(65'534) != 0) ::_exit(1);
    const std::vector<GrantedPage> pages(32, GrantedPage{1, 2, 3, false, 0});
    Result<> sent;
    int batches = 0;
    while ((sent = ends.port.send_grants(1, pages, std::nullopt)) && batches < 100) ++batches;
    ::_exit(!sent && sent.error().code == Errc::exhausted && sent.error().native == ETOOMANYREFS ? 0 : 2);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace penstock
