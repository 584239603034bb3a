// SPDX-License-Identifier: Apache-2.0
#include "dataplane/device/host/host_frame.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dataplane/base/memfd.hpp"
#include "dataplane/base/units.hpp"
#include "dataplane/device/host/host_device.hpp"
#include "tests/support/drive_device.hpp"
#include "tests/support/fixed_headroom.hpp"

namespace penstock {
namespace {

constexpr uid_t nobody = 65534;

// What a client process tries on a frame; a bit is set for each attempt that the kernel let through.
enum Attempt : int {
  maps_readable = 1 << 0,
  maps_writable = 1 << 1,
  makes_writable = 1 << 2,
  writes = 1 << 3,
  shrinks = 1 << 4,
  grows = 1 << 5,
  punches = 1 << 6,
  seals = 1 << 7,
};

int attempts_that_succeed(int fd, std::size_t bytes) {
  int worked = 0;
  const auto note = [&worked](Attempt attempt, bool success) { worked |= success ? attempt : 0; };
  void* const readable = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd, 0);
  note(maps_readable, readable != MAP_FAILED);
  note(makes_writable, readable != MAP_FAILED && ::mprotect(readable, bytes, PROT_READ | PROT_WRITE) == 0);
  note(maps_writable, ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) != MAP_FAILED);
  note(writes, ::pwrite(fd, "x", 1, 0) == 1);
  note(punches, ::fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 65536) == 0 ||
                    (readable != MAP_FAILED && ::madvise(readable, bytes, MADV_REMOVE) == 0));
  note(shrinks, ::ftruncate(fd, 0) == 0);
  note(grows, ::ftruncate(fd, static_cast<off_t>(2 * bytes)) == 0);
  note(seals, ::fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE) == 0);
  return worked;
}

// Runs the attempts in a process of its own, which has nothing but the descriptor. -1 when it did not run.
int attempts_of_a_client(int fd, std::size_t bytes, uid_t user) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (user != ::getuid() && (::setgid(user) != 0 || ::setuid(user) != 0)) ::_exit(0xff);
    // Each attempt again through a new description of the same file.
    std::array<char, 32> path{};
    std::snprintf(path.data(), path.size(), "/proc/self/fd/%d", fd);
    const int again = ::open(path.data(), O_RDWR | O_CLOEXEC);
    const int worked = attempts_that_succeed(fd, bytes);
    ::_exit(again < 0 ? worked : worked | attempts_that_succeed(again, bytes));
  }
  int status = 0;
  if (::waitpid(child, &status, 0) != child || !WIFEXITED(status)) return -1;
  return WEXITSTATUS(status);
}

Result<HostFrame> filled_frame(std::uint64_t bytes) {
  HostFrame frame = TRY(HostFrame::make(bytes, HostPages::huge));
  std::ranges::fill(frame.bytes(), std::byte{0x5a});
  return frame;
}

TEST(HostFrame, PublishedFrameOnlyLetsItselfBeRead) {
  const Result<HostFrame> frame = filled_frame(4 * mib);
  ASSERT_TRUE(frame.has_value());
  ASSERT_TRUE(frame->seal(FrameAccess::shared_read_only));
  EXPECT_EQ(attempts_of_a_client(frame->fd(), 4 * mib, ::getuid()), maps_readable);
  EXPECT_TRUE(std::ranges::all_of(frame->bytes(), [](std::byte byte) { return byte == std::byte{0x5a}; }));
}

TEST(HostFrame, PublishedFrameRefusesAnotherUserToo) {
  if (::getuid() != 0) GTEST_SKIP() << "requires root, to become another user";
  const Result<HostFrame> frame = filled_frame(4 * mib);
  ASSERT_TRUE(frame.has_value());
  ASSERT_TRUE(frame->seal(FrameAccess::shared_read_only));
  EXPECT_EQ(attempts_of_a_client(frame->fd(), 4 * mib, nobody), maps_readable);
}

TEST(HostFrame, OwnersMappingStillWritesAfterPublication) {
  const Result<HostFrame> frame = filled_frame(2 * mib);
  ASSERT_TRUE(frame.has_value());
  ASSERT_TRUE(frame->seal(FrameAccess::shared_read_only));
  frame->bytes()[12345] = std::byte{1};
  const Result<Mapping> client = Mapping::shared(frame->fd(), 2 * mib, Access::read);
  ASSERT_TRUE(client.has_value());
  EXPECT_EQ(client->bytes()[12345], std::byte{1});
}

TEST(HostFrame, PrivateFrameIsWrittenButNeitherResizedNorSealed) {
  const Result<HostFrame> frame = filled_frame(4 * mib);
  ASSERT_TRUE(frame.has_value());
  ASSERT_TRUE(frame->seal(FrameAccess::private_writable));
  EXPECT_EQ(attempts_of_a_client(frame->fd(), 4 * mib, ::getuid()),
            maps_readable | maps_writable | makes_writable | writes | punches);
}

TEST(HostFrame, IsZeroAndPresentBeforeItIsUsed) {
  for (const HostPages pages : {HostPages::huge, HostPages::small}) {
    const Result<HostFrame> frame = HostFrame::make(4 * mib, pages);
    ASSERT_TRUE(frame.has_value());
    std::array<unsigned char, 1024> present{};
    ASSERT_EQ(::mincore(frame->bytes().data(), frame->bytes().size(), present.data()), 0);
    EXPECT_TRUE(std::ranges::all_of(present, [](unsigned char page) { return (page & 1) != 0; }));
    EXPECT_TRUE(std::ranges::all_of(frame->bytes(), [](std::byte byte) { return byte == std::byte{0}; }));
  }
}

TEST(HostFrame, StartsOnAHugePageBoundaryWhenItHoldsWholeOnes) {
  for (int i = 0; i < 3; ++i) {
    const Result<HostFrame> frame = HostFrame::make(2 * mib, HostPages::small);
    ASSERT_TRUE(frame.has_value());
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(frame->bytes().data()) % huge_page_bytes, 0u);
  }
}

TEST(HostFrame, ASizeThatIsNoMultipleOfAHugePageUsesSmallOnes) {
  const Result<HostFrame> frame = HostFrame::make(2 * mib + 4096, HostPages::huge);
  ASSERT_TRUE(frame.has_value());
  EXPECT_EQ(frame->pages(), HostPages::small);
  EXPECT_EQ(frame->bytes().size(), 2 * mib + 4096);
}

TEST(HostFrame, AFullDescriptorTableIsNamed) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{.rlim_cur = 1, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const Result<HostFrame> frame = HostFrame::make(2 * mib, HostPages::huge);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  ASSERT_FALSE(frame.has_value());
  EXPECT_EQ(frame.error().native, EMFILE);
}

int receive_descriptor(int socket) {
  char byte = 0;
  iovec data{.iov_base = &byte, .iov_len = 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  if (::recvmsg(socket, &message, MSG_CMSG_CLOEXEC) != 1) return -1;
  const cmsghdr* const header = CMSG_FIRSTHDR(&message);
  int fd = -1;
  if (header != nullptr) std::memcpy(&fd, CMSG_DATA(header), sizeof fd);
  return fd;
}

bool send_descriptor(int socket, int fd) {
  char byte = 0;
  iovec data{.iov_base = &byte, .iov_len = 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof fd);
  std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
  return ::sendmsg(socket, &message, 0) == 1;
}

// A service that publishes one frame and is killed. Only _exit leaves it.
[[noreturn]] void serve_one_frame(int socket) {
  FixedHeadroom headroom;
  Result<HostDevice> device =
      HostDevice::open({.frame_bytes = 2 * mib, .capacity_bytes = 8 * mib, .ready_pool_frames = 1}, headroom);
  if (!device) ::_exit(1);
  const std::optional<FrameId> frame = make_frame(device->owner());
  if (!frame) ::_exit(2);
  std::ranges::fill(device->writer().address(*frame), std::byte{0x77});
  const Result<ExportedFrame> fd = device->owner().share(*frame, FrameAccess::shared_read_only);
  if (!fd || !send_descriptor(socket, fd->get())) ::_exit(3);
  while (true) ::pause();
}

TEST(HostFrame, ContentOutlivesTheServiceWhileItIsMapped) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), 0);
  const UniqueFd here(ends[0]);
  UniqueFd there(ends[1]);
  const pid_t service = ::fork();
  if (service == 0) serve_one_frame(there.get());
  there.reset();
  UniqueFd fd(receive_descriptor(here.get()));
  ASSERT_TRUE(static_cast<bool>(fd));
  const Result<Mapping> mapping = Mapping::shared(fd.get(), 2 * mib, Access::read);
  fd.reset();
  ASSERT_EQ(::kill(service, SIGKILL), 0);
  ASSERT_EQ(::waitpid(service, nullptr, 0), service);
  ASSERT_TRUE(mapping.has_value());
  EXPECT_TRUE(std::ranges::all_of(mapping->bytes(), [](std::byte byte) { return byte == std::byte{0x77}; }));
}

}  // namespace
}  // namespace penstock
