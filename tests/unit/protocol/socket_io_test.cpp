// SPDX-License-Identifier: Apache-2.0
#include "service/protocol/socket_io.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "dataplane/base/memfd.hpp"

namespace penstock {
namespace {

using Bytes = std::vector<std::byte>;

struct Sockets {
  UniqueFd near, far;
};

Sockets connected() {
  auto pair = make_socket_pair();
  EXPECT_TRUE(pair);
  return Sockets{std::move(pair->first), std::move(pair->second)};
}

std::size_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

// As a hostile client would: no check of any kind.
void send_raw(int fd, std::size_t bytes, const std::vector<int>& descriptors) {
  Bytes message(bytes);
  iovec part{message.data(), message.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * 253)] = {};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (!descriptors.empty()) {
    header.msg_control = control;
    header.msg_controllen = CMSG_SPACE(sizeof(int) * descriptors.size());
    cmsghdr* const rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int) * descriptors.size());
    std::memcpy(CMSG_DATA(rights), descriptors.data(), sizeof(int) * descriptors.size());
  }
  ASSERT_EQ(::sendmsg(fd, &header, MSG_NOSIGNAL), static_cast<ssize_t>(bytes));
}

TEST(SocketIo, CarriesAMessageWithItsDescriptors) {
  const Sockets sockets = connected();
  const auto file = create_memfd("test", 4096);
  ASSERT_TRUE(file);
  const int descriptors[] = {file->get(), file->get()};
  const Bytes message(100, std::byte{7});
  ASSERT_TRUE(send_message(sockets.near.get(), message, descriptors));
  Bytes buffer(200);
  UniqueFds received;
  const auto length = receive_message(sockets.far.get(), buffer, received);
  ASSERT_TRUE(length);
  EXPECT_EQ(*length, 100u);
  EXPECT_EQ(buffer[99], std::byte{7});
  ASSERT_EQ(received.size(), 2u);
  EXPECT_EQ(*size_of(received[1]), 4096u);
  EXPECT_EQ(::fcntl(received[0], F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
}

TEST(SocketIo, CarriesAsManyDescriptorsAsTheProtocolAllows) {
  const Sockets sockets = connected();
  const std::vector<int> descriptors(PSTW_DESCRIPTORS_MAX, sockets.near.get());
  const std::size_t before = open_descriptors();
  ASSERT_TRUE(send_message(sockets.near.get(), Bytes(1), descriptors));
  {
    Bytes buffer(10);
    UniqueFds received;
    ASSERT_TRUE(receive_message(sockets.far.get(), buffer, received));
    EXPECT_EQ(received.size(), std::size_t{PSTW_DESCRIPTORS_MAX});
    EXPECT_EQ(open_descriptors(), before + PSTW_DESCRIPTORS_MAX);
  }
  EXPECT_EQ(open_descriptors(), before);
}

TEST(SocketIo, RefusesMoreDescriptorsAndClosesThemAll) {
  const Sockets sockets = connected();
  const std::size_t before = open_descriptors();
  send_raw(sockets.near.get(), 10, std::vector<int>(PSTW_DESCRIPTORS_MAX + 1, sockets.near.get()));
  Bytes buffer(10);
  UniqueFds received;
  EXPECT_EQ(receive_message(sockets.far.get(), buffer, received).error().code, Errc::protocol);
  EXPECT_EQ(received.size(), 0u);
  EXPECT_EQ(open_descriptors(), before);
}

TEST(SocketIo, RefusesALongerMessageThanItsBufferAndClosesWhatCame) {
  const Sockets sockets = connected();
  const std::size_t before = open_descriptors();
  send_raw(sockets.near.get(), 11, {sockets.near.get()});
  Bytes buffer(10);
  UniqueFds received;
  EXPECT_EQ(receive_message(sockets.far.get(), buffer, received).error().code, Errc::protocol);
  EXPECT_EQ(open_descriptors(), before);
}

TEST(SocketIo, InstallsNoDescriptorWhereNoneMayCome) {
  const Sockets sockets = connected();
  const std::size_t before = open_descriptors();
  send_raw(sockets.near.get(), 10, {sockets.near.get(), sockets.far.get()});
  Bytes buffer(10);
  EXPECT_EQ(receive_plain_message(sockets.far.get(), buffer).error().code, Errc::protocol);
  EXPECT_EQ(open_descriptors(), before);
  send_raw(sockets.near.get(), 10, {});
  EXPECT_EQ(*receive_plain_message(sockets.far.get(), buffer), 10u);
}

// In a child, because the limit of descriptors belongs to the whole process.
TEST(SocketIo, LosesAllDescriptorsOrNoneWhenTheProcessIsOutOfThem) {
  const Sockets sockets = connected();
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const std::vector<int> descriptors(8, sockets.near.get());
    if (!send_message(sockets.near.get(), Bytes(24), descriptors)) ::_exit(1);
    const UniqueFd probe(::dup(0));
    const rlim_t lowest = static_cast<rlim_t>(probe.get());
    const rlimit limit{lowest + 3, lowest + 3};
    if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) ::_exit(2);
    Bytes buffer(64);
    UniqueFds received;
    const auto length = receive_message(sockets.far.get(), buffer, received);
    if (length || length.error().code != Errc::exhausted) ::_exit(3);
    if (length.error().native != 24 || received.size() != 0) ::_exit(4);
    // Those that had come are closed again: there is room for as many as before.
    const int again[] = {::dup(0), ::dup(0)};
    ::_exit(again[0] >= 0 && again[1] >= 0 ? 0 : 5);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(SocketIo, SaysBusyWhenThereIsNothingAndWhenItIsFull) {
  const Sockets sockets = connected();
  Bytes buffer(4096);
  UniqueFds received;
  EXPECT_EQ(receive_message(sockets.far.get(), buffer, received).error().code, Errc::busy);
  EXPECT_EQ(receive_plain_message(sockets.far.get(), buffer).error().code, Errc::busy);
  Result<> sent;
  int messages = 0;
  while ((sent = send_message(sockets.near.get(), buffer)) && messages < 10'000) ++messages;
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().code, Errc::busy);
  EXPECT_TRUE(receive_message(sockets.far.get(), buffer, received));
}

TEST(SocketIo, SaysClosedInBothDirections) {
  Sockets sockets = connected();
  sockets.near.reset();
  Bytes buffer(10);
  UniqueFds received;
  EXPECT_EQ(receive_message(sockets.far.get(), buffer, received).error().code, Errc::closed);
  EXPECT_EQ(receive_plain_message(sockets.far.get(), buffer).error().code, Errc::closed);
  EXPECT_EQ(send_message(sockets.far.get(), buffer).error().code, Errc::closed);
}

TEST(SocketIo, AHangUpWithUnreadMessagesIsClosed) {
  Sockets sockets = connected();
  ASSERT_TRUE(send_message(sockets.far.get(), Bytes(10)));
  sockets.near.reset();
  Bytes buffer(10);
  UniqueFds received;
  EXPECT_EQ(receive_message(sockets.far.get(), buffer, received).error().code, Errc::closed);
}

TEST(SocketIo, WaitsForAMessageAndForRoom) {
  const Sockets sockets = connected();
  constexpr int rounds = 2'000;
  std::thread sender([&] {
    for (int i = 0; i < rounds; ++i) {
      const std::array<int, 256> message{i};
      ASSERT_TRUE(send_message(sockets.near.get(), std::as_bytes(std::span(message)), {}, Wait::yes));
    }
  });
  for (int i = 0; i < rounds; ++i) {
    std::array<int, 256> message{};
    UniqueFds received;
    const auto length =
        receive_message(sockets.far.get(), std::as_writable_bytes(std::span(message)), received, Wait::yes);
    ASSERT_TRUE(length);
    EXPECT_EQ(message[0], i);
  }
  sender.join();
}

TEST(UniqueFds, GivesUpWhatIsTakenAndClosesTheRest) {
  const std::size_t before = open_descriptors();
  UniqueFd kept;
  {
    UniqueFds fds;
    fds.add(::dup(0));
    fds.add(::dup(0));
    UniqueFds moved(std::move(fds));
    EXPECT_EQ(fds.size(), 0u);
    kept = moved.take(1);
    EXPECT_EQ(moved.size(), 2u);
    EXPECT_EQ(moved[1], -1);
    EXPECT_EQ(open_descriptors(), before + 2);
  }
  EXPECT_EQ(open_descriptors(), before + 1);
}

}  // namespace
}  // namespace penstock
