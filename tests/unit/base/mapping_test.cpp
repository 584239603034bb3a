// SPDX-License-Identifier: Apache-2.0
#include "dataplane/base/mapping.hpp"

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dataplane/base/memfd.hpp"
#include "dataplane/base/units.hpp"

namespace penstock {
namespace {

bool is_mapped(const void* address) {
  unsigned char resident = 0;
  return ::mincore(const_cast<void*>(address), 1, &resident) == 0;
}

TEST(Mapping, GivesZeroedMemoryBackWhenItEnds) {
  const std::byte* address = nullptr;
  {
    Mapping mapping = *Mapping::anonymous(100);
    EXPECT_EQ(mapping.size(), small_page_bytes);
    EXPECT_EQ(mapping.bytes()[99], std::byte{0});
    mapping.bytes()[0] = std::byte{1};
    address = mapping.data();
    EXPECT_TRUE(is_mapped(address));
  }
  EXPECT_FALSE(is_mapped(address));
}

TEST(Mapping, AlignsTransparentHugePages) {
  const Mapping mapping = *Mapping::anonymous(huge_page_bytes + 1, PageKind::transparent);
  EXPECT_EQ(mapping.size(), 2 * huge_page_bytes);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(mapping.data()) % huge_page_bytes, 0u);
  std::memset(mapping.data(), 1, mapping.size());
}

TEST(Mapping, MovesItsOwnership) {
  Mapping first = *Mapping::anonymous(1);
  std::byte* const address = first.data();
  Mapping second = std::move(first);
  EXPECT_FALSE(first);
  EXPECT_EQ(second.data(), address);
  Mapping third = *Mapping::anonymous(1);
  const std::byte* const replaced = third.data();
  third = std::move(second);
  EXPECT_FALSE(is_mapped(replaced));
  EXPECT_TRUE(is_mapped(address));
}

TEST(Mapping, ReservesAddressesThatFilesArePlacedIn) {
  const UniqueFd file = *create_memfd("test", 2 * small_page_bytes);
  Mapping reserved = *Mapping::reserve(16 * mib);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(reserved.data()) % huge_page_bytes, 0u);
  ASSERT_TRUE(reserved.place(4 * mib, file.get(), 2 * small_page_bytes, Access::read_write));
  const Mapping view = *Mapping::shared(file.get(), 2 * small_page_bytes, Access::read);
  reserved.bytes()[4 * mib + 5000] = std::byte{42};
  EXPECT_EQ(view.bytes()[5000], std::byte{42});
  ASSERT_TRUE(reserved.unplace(4 * mib, 2 * small_page_bytes));
  EXPECT_TRUE(is_mapped(reserved.data() + 4 * mib));
  EXPECT_EQ(view.bytes()[5000], std::byte{42});
}

TEST(Mapping, AlignsASharedMappingAndReadsFromItsOffset) {
  const UniqueFd file = *create_memfd("test", 3 * small_page_bytes);
  Mapping all = *Mapping::shared(file.get(), 3 * small_page_bytes, Access::read_write);
  all.bytes()[small_page_bytes] = std::byte{9};
  const Mapping part =
      *Mapping::shared(file.get(), 2 * small_page_bytes, Access::read, small_page_bytes, huge_page_bytes);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(part.data()) % huge_page_bytes, 0u);
  EXPECT_EQ(part.bytes()[0], std::byte{9});
}

TEST(Mapping, CopyOnWriteKeepsTheFileAsItIs) {
  const UniqueFd file = *create_memfd("test", small_page_bytes);
  Mapping mine = *Mapping::copy_on_write(file.get(), small_page_bytes);
  mine.bytes()[0] = std::byte{1};
  const Mapping theirs = *Mapping::shared(file.get(), small_page_bytes, Access::read);
  EXPECT_EQ(theirs.bytes()[0], std::byte{0});
}

TEST(Mapping, AnswersInsteadOfFailingWhenThereIsNoRoom) {
  const auto huge = Mapping::reserve(UINT64_MAX - 2 * huge_page_bytes);
  ASSERT_FALSE(huge);
  EXPECT_EQ(huge.error().code, Errc::exhausted);
  EXPECT_FALSE(Mapping::anonymous(0));
  EXPECT_FALSE(Mapping::anonymous(UINT64_MAX));
  EXPECT_FALSE(Mapping::anonymous(UINT64_MAX, PageKind::transparent));
}

TEST(Mapping, ReportsARefusedWritableMapping) {
  const UniqueFd file = *create_memfd("test", small_page_bytes);
  const Mapping owner = *Mapping::shared(file.get(), small_page_bytes, Access::read_write);
  ASSERT_TRUE(add_seals(file.get(), F_SEAL_FUTURE_WRITE));
  const auto writable = Mapping::shared(file.get(), small_page_bytes, Access::read_write);
  ASSERT_FALSE(writable);
  EXPECT_EQ(writable.error().code, Errc::denied);
  Mapping readable = *Mapping::shared(file.get(), small_page_bytes, Access::read);
  const auto upgraded = readable.protect(Access::read_write);
  ASSERT_FALSE(upgraded);
  EXPECT_EQ(upgraded.error().code, Errc::denied);
  owner.bytes()[7] = std::byte{7};
  EXPECT_EQ(readable.bytes()[7], std::byte{7});
}

TEST(Mapping, DropsTheCopiesOfARangeThatWasWrittenTo) {
  const UniqueFd file = *create_memfd("test", 2 * small_page_bytes);
  const Mapping owner = *Mapping::shared(file.get(), 2 * small_page_bytes, Access::read_write);
  ASSERT_TRUE(add_seals(file.get(), F_SEAL_FUTURE_WRITE));
  Mapping mine = *Mapping::reserve(2 * small_page_bytes);
  ASSERT_TRUE(mine.place(0, file.get(), 2 * small_page_bytes, Access::read, 0, Sharing::copy_on_write));
  ASSERT_TRUE(mine.protect(0, small_page_bytes, Access::read_write));
  mine.bytes()[0] = std::byte{1};
  EXPECT_EQ(owner.bytes()[0], std::byte{0});
  owner.bytes()[0] = std::byte{2};
  EXPECT_EQ(mine.bytes()[0], std::byte{1});
  ASSERT_TRUE(mine.drop_copies(0, small_page_bytes));
  EXPECT_EQ(mine.bytes()[0], std::byte{2});
}

// Runs `look` in a child that bypasses the handlers of fork; its answer is the exit status.
template <class Look>
int in_raw_child(Look look) {
  const auto child = static_cast<pid_t>(::syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr));
  if (child == 0) ::_exit(look());
  int status = 0;
  return ::waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(Mapping, KeepsARangeFromChildren) {
  Mapping mapping = *Mapping::anonymous(2 * small_page_bytes);
  ASSERT_TRUE(mapping.keep_from_children(0, small_page_bytes));
  const std::byte* const hidden = mapping.data();
  const std::byte* const seen = hidden + small_page_bytes;
  EXPECT_EQ(in_raw_child([&] { return is_mapped(hidden) ? 1 : is_mapped(seen) ? 0 : 2; }), 0);
}

TEST(Mapping, ShowsZerosToChildrenWhereAsked) {
  Mapping mapping = *Mapping::anonymous(small_page_bytes);
  mapping.bytes()[0] = std::byte{5};
  EXPECT_EQ(in_raw_child([&] { return static_cast<int>(mapping.bytes()[0]); }), 5);
  ASSERT_TRUE(mapping.zero_in_children());
  EXPECT_EQ(in_raw_child([&] { return static_cast<int>(mapping.bytes()[0]); }), 0);
  EXPECT_EQ(mapping.bytes()[0], std::byte{5});
}

}  // namespace
}  // namespace penstock
