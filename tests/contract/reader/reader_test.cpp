// SPDX-License-Identifier: Apache-2.0
// What every reader owes its caller: the file's bytes, each op answered once, a descriptor that wakes.
#include <gtest/gtest.h>
#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <set>

#include "dataplane/base/unique_fd.hpp"
#include "tests/contract/reader/reader_under_test.hpp"
#include "tests/support/drive_reader.hpp"

namespace penstock::test {
namespace {

constexpr std::uint64_t model_bytes = 3 * 4096 + 100;

class Reader : public ReaderTest {};

TEST_P(Reader, ReadsIntoASlotWhatTheFileHolds) {
  use_file(1 << 20);
  if (!has_direct()) GTEST_SKIP() << "requires a temporary folder with direct I/O";
  const SlotId slot = *ring_->take();
  ReadOp read = op(slot_bytes, slot_bytes, ReadPath::direct, ring_->address(slot));
  read.slot = slot;
  ASSERT_EQ(read_once(*reader_, read), static_cast<std::int32_t>(slot_bytes));
  EXPECT_EQ(std::memcmp(ring_->address(slot), content_.data() + slot_bytes, slot_bytes), 0);
}

TEST_P(Reader, ReadsIntoAPartOfASlot) {
  use_file(1 << 20);
  if (!has_direct()) GTEST_SKIP() << "requires a temporary folder with direct I/O";
  const SlotId slot = *ring_->take();
  std::byte* const middle = ring_->address(slot) + 8192;
  std::memset(ring_->address(slot), 0xa5, slot_bytes);
  ReadOp read = op(4096, 4096, ReadPath::direct, middle);
  read.slot = slot;
  ASSERT_EQ(read_once(*reader_, read), 4096);
  EXPECT_EQ(std::memcmp(middle, content_.data() + 4096, 4096), 0);
  EXPECT_EQ(middle[-1], std::byte{0xa5});
  EXPECT_EQ(middle[4096], std::byte{0xa5});
}

TEST_P(Reader, ReadsDirectlyIntoMemoryThatIsNoSlot) {
  use_file(1 << 20);
  if (!has_direct()) GTEST_SKIP() << "requires a temporary folder with direct I/O";
  const auto memory = Mapping::anonymous(1 << 20);
  ASSERT_TRUE(memory);
  ASSERT_EQ(read_once(*reader_, op(0, 1 << 20, ReadPath::direct, memory->data())), 1 << 20);
  EXPECT_TRUE(std::ranges::equal(memory->bytes(), content_));
}

TEST_P(Reader, ReadsThroughThePageCacheAtAnyOffset) {
  use_file(model_bytes);
  std::vector<std::byte> memory(777);
  ASSERT_EQ(read_once(*reader_, op(37, 777, ReadPath::cached, memory.data())), 777);
  EXPECT_TRUE(std::ranges::equal(memory, std::span(content_).subspan(37, 777)));
}

TEST_P(Reader, EndsAReadRoundedPastTheEndAtTheEnd) {
  use_file(model_bytes);
  std::vector<std::byte> memory(4096);
  EXPECT_EQ(read_once(*reader_, op(3 * 4096, 4096, ReadPath::cached, memory.data())), 100);
  if (!has_direct()) GTEST_SKIP() << "requires a temporary folder with direct I/O";
  const SlotId slot = *ring_->take();
  EXPECT_EQ(read_once(*reader_, op(3 * 4096, 4096, ReadPath::direct, ring_->address(slot))), 100);
  EXPECT_EQ(std::memcmp(ring_->address(slot), content_.data() + 3 * 4096, 100), 0);
}

TEST_P(Reader, AnswersZeroPastTheEnd) {
  use_file(model_bytes);
  const SlotId slot = *ring_->take();
  EXPECT_EQ(read_once(*reader_, op(1 << 20, 4096, ReadPath::cached, ring_->address(slot))), 0);
  if (!has_direct()) GTEST_SKIP() << "requires a temporary folder with direct I/O";
  EXPECT_EQ(read_once(*reader_, op(1 << 20, 4096, ReadPath::direct, ring_->address(slot))), 0);
}

TEST_P(Reader, TellsEinvalOfAMisalignedDirectRead) {
  use_file(1 << 20);
  if (!has_direct()) GTEST_SKIP() << "requires a temporary folder with direct I/O";
  const SlotId slot = *ring_->take();
  EXPECT_EQ(read_once(*reader_, op(37, 4096, ReadPath::direct, ring_->address(slot))), -EINVAL);
  EXPECT_EQ(read_once(*reader_, op(0, 4096, ReadPath::direct, ring_->address(slot))), 4096);
}

TEST_P(Reader, AnswersEachOfManyOpsOnceWithItsTag) {
  use_file(1 << 20);
  const ReadPath other = has_direct() ? ReadPath::direct : ReadPath::cached;
  std::vector<std::byte> memory(depth * 4096 + 4096);
  std::byte* const aligned = memory.data() + (4096 - reinterpret_cast<std::uintptr_t>(memory.data()) % 4096);
  for (int round = 0; round < 50; ++round) {
    std::array<ReadOp, depth> ops;
    for (std::uint64_t index = 0; index < depth; ++index) {
      const std::uint64_t offset = (index * 7 + static_cast<std::uint64_t>(round)) % 256 * 4096;
      ops[index] = op(offset, 4096, index % 2 == 0 ? ReadPath::cached : other, aligned + index * 4096,
                      0xfedcba9876543210u + index);
    }
    ASSERT_TRUE(reader_->submit(ops));
    EXPECT_EQ(reader_->in_flight(), depth);
    std::set<std::uint64_t> tags;
    for (const ReadDone& done : reap_all(*reader_, depth)) {
      EXPECT_EQ(done.result, 4096);
      tags.insert(done.tag);
    }
    EXPECT_EQ(tags.size(), depth);
    EXPECT_EQ(*tags.begin(), 0xfedcba9876543210u);
    EXPECT_EQ(reader_->in_flight(), 0u);
    for (const ReadOp& read : ops) {
      ASSERT_EQ(std::memcmp(read.destination, content_.data() + read.extent.offset, 4096), 0);
    }
  }
}

// How many descriptors are ready. Work that the kernel still does for a ring may interrupt the wait.
int events_of(int epoll, int milliseconds) {
  epoll_event event{};
  int count = 0;
  do {
    count = ::epoll_wait(epoll, &event, 1, milliseconds);
  } while (count < 0 && errno == EINTR);
  return count;
}

TEST_P(Reader, WakesAnEpollThatWaitsOnItsDescriptor) {
  use_file(1 << 20);
  const UniqueFd epoll(::epoll_create1(EPOLL_CLOEXEC));
  epoll_event event{.events = EPOLLIN, .data = {}};
  ASSERT_EQ(::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, reader_->event_fd(), &event), 0);
  ASSERT_EQ(events_of(epoll.get(), 0), 0) << "readable although nothing was asked for";
  const SlotId slot = *ring_->take();
  for (const ReadPath path : {ReadPath::cached, ReadPath::direct, ReadPath::cached}) {
    if (path == ReadPath::direct && !has_direct()) continue;
    const ReadOp read = op(0, 65536, path, ring_->address(slot));
    ASSERT_TRUE(reader_->submit(std::span(&read, 1)));
    std::size_t reaped = 0;
    while (reaped == 0) {
      ASSERT_EQ(events_of(epoll.get(), 20'000), 1) << "no event for a finished read";
      std::array<ReadDone, 4> done;
      const auto count = reader_->reap(done);
      ASSERT_TRUE(count);
      reaped = *count;
    }
    std::array<ReadDone, 4> none;
    ASSERT_EQ(*reader_->reap(none), 0u);
    EXPECT_EQ(events_of(epoll.get(), 0), 0) << "readable although everything was reaped";
  }
}

TEST_P(Reader, KeepsItsDescriptorReadableWhileCompletionsAreLeft) {
  use_file(1 << 20);
  std::vector<std::byte> memory(4 * 512);
  std::array<ReadOp, 4> ops;
  for (std::uint64_t index = 0; index < 4; ++index) {
    ops[index] = op(index * 512, 512, ReadPath::cached, memory.data() + index * 512, index);
  }
  ASSERT_TRUE(reader_->submit(ops));
  std::size_t reaped = 0;
  while (reaped < 4) {
    ASSERT_TRUE(wait_readable(reader_->event_fd(), 20'000)) << "after " << reaped;
    ReadDone one;
    const auto count = reader_->reap(std::span(&one, 1));
    ASSERT_TRUE(count);
    reaped += *count;
  }
}

INSTANTIATE_TEST_SUITE_P(Rungs, Reader, testing::Values(Rung::uring, Rung::uring_unregistered, Rung::pread),
                         rung_name);

}  // namespace
}  // namespace penstock::test
