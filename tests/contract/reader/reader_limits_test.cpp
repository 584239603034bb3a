// SPDX-License-Identifier: Apache-2.0
// Full queues, full tables, offsets past 2 and 4 GiB.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <set>

#include "dataplane/base/units.hpp"
#include "tests/contract/reader/reader_under_test.hpp"
#include "tests/support/drive_reader.hpp"
#include "tests/support/random_file.hpp"

namespace penstock::test {
namespace {

class ReaderLimits : public ReaderTest {};

TEST_P(ReaderLimits, QueuesAllOpsOrNone) {
  use_file(1 << 20);
  std::vector<std::byte> memory((depth + 1) * 512);
  std::vector<ReadOp> ops;
  for (std::uint64_t index = 0; index <= depth; ++index) {
    ops.push_back(op(index * 512, 512, ReadPath::cached, memory.data() + index * 512, index));
  }
  const auto too_many = reader_->submit(ops);
  ASSERT_FALSE(too_many);
  EXPECT_EQ(too_many.error().code, Errc::busy);
  EXPECT_EQ(reader_->in_flight(), 0u);

  ASSERT_TRUE(reader_->submit(std::span(ops).first(depth)));
  const auto one_more = reader_->submit(std::span(ops).last(1));
  ASSERT_FALSE(one_more);
  EXPECT_EQ(one_more.error().code, Errc::busy);
  EXPECT_EQ(reap_all(*reader_, depth).size(), depth);
  ASSERT_TRUE(reader_->submit(std::span(ops).last(1)));
  EXPECT_EQ(reap_all(*reader_, 1).front().tag, depth);
}

TEST_P(ReaderLimits, KeepsManyFilesApart) {
  std::vector<std::shared_ptr<CheckpointFile>> files;
  std::vector<FileId> ids;
  for (std::uint64_t index = 0; index < files_max; ++index) {
    const auto path = folder_ / std::to_string(index);
    write_durably(path, random_bytes(4096, index));
    files.push_back(*CheckpointFile::open(path));
    const auto id = reader_->add(files.back()->cached_fd(), files.back()->direct_fd());
    ASSERT_TRUE(id);
    ids.push_back(*id);
  }
  const auto full = reader_->add(files[0]->cached_fd(), -1);
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().code, Errc::exhausted);

  const SlotId slot = *ring_->take();
  for (std::uint64_t index = 0; index < files_max; ++index) {
    const ReadPath path = files[index]->direct().usable ? ReadPath::direct : ReadPath::cached;
    ASSERT_EQ(read_once(*reader_, {.file = ids[index],
                                   .extent = {.offset = 0, .length = 4096},
                                   .destination = ring_->address(slot),
                                   .slot = slot,
                                   .path = path,
                                   .tag = index}),
              4096);
    EXPECT_TRUE(std::ranges::equal(std::span(ring_->address(slot), 4096), random_bytes(4096, index)));
  }
}

TEST_P(ReaderLimits, ForgetsARemovedFileAndNeverUsesItsIdAgain) {
  write_durably(folder_ / "old", random_bytes(4096, 1));
  write_durably(folder_ / "new", random_bytes(4096, 2));
  const auto old_file = *CheckpointFile::open(folder_ / "old");
  const auto new_file = *CheckpointFile::open(folder_ / "new");
  const SlotId slot = *ring_->take();
  std::set<FileId> seen;
  for (int round = 0; round < 100; ++round) {
    const auto& file = round % 2 == 0 ? old_file : new_file;
    const auto id = reader_->add(file->cached_fd(), file->direct_fd());
    ASSERT_TRUE(id);
    EXPECT_TRUE(seen.insert(*id).second) << "an id came back";
    ASSERT_EQ(read_once(*reader_, {.file = *id,
                                   .extent = {.offset = 0, .length = 4096},
                                   .destination = ring_->address(slot),
                                   .path = file->direct().usable ? ReadPath::direct : ReadPath::cached}),
              4096);
    EXPECT_TRUE(std::ranges::equal(std::span(ring_->address(slot), 4096), random_bytes(4096, 1 + round % 2)));
    reader_->remove(*id);
  }
}

TEST_P(ReaderLimits, ReadsBeyondFourGibibytes) {
  constexpr std::uint64_t far = 5 * gib + 4096;
  const auto content = random_bytes(8192, 5);
  const auto path = folder_ / "sparse";
  {
    const UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    ASSERT_EQ(::pwrite(file.get(), content.data(), content.size(), far), 8192);
    ASSERT_EQ(::fsync(file.get()), 0);
  }
  file_ = *CheckpointFile::open(path);
  id_ = *reader_->add(file_->cached_fd(), file_->direct_fd());
  const SlotId slot = *ring_->take();
  for (const ReadPath way : {ReadPath::cached, ReadPath::direct}) {
    if (way == ReadPath::direct && !has_direct())
      GTEST_SKIP() << "requires a temporary folder with direct I/O";
    std::fill_n(ring_->address(slot), 8192, std::byte{0xa5});
    ASSERT_EQ(read_once(*reader_, op(far, 8192, way, ring_->address(slot))), 8192);
    EXPECT_TRUE(std::ranges::equal(std::span(ring_->address(slot), 8192), content));
    ASSERT_EQ(read_once(*reader_, op(3 * gib, 4096, way, ring_->address(slot))), 4096);
    EXPECT_EQ(std::ranges::count(std::span(ring_->address(slot), 4096), std::byte{0}), 4096);
  }
}

INSTANTIATE_TEST_SUITE_P(Rungs, ReaderLimits,
                         testing::Values(Rung::uring, Rung::uring_unregistered, Rung::pread), rung_name);

}  // namespace
}  // namespace penstock::test
