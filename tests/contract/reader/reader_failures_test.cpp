// SPDX-License-Identifier: Apache-2.0
// What the kernel refuses arrives as it is; nothing is left behind.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "dataplane/base/units.hpp"
#include "tests/contract/reader/reader_under_test.hpp"
#include "tests/support/drive_reader.hpp"
#include "tests/support/loop_image.hpp"
#include "tests/support/random_file.hpp"

namespace penstock::test {
namespace {

class ReaderFailures : public ReaderTest {};

TEST_P(ReaderFailures, TellsTheErrnoOfADescriptorThatCannotBeRead) {
  const UniqueFd write_only(::open((folder_ / "out").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  const auto id = reader_->add(write_only.get(), -1);
  ASSERT_TRUE(id);
  std::array<std::byte, 512> memory;
  EXPECT_EQ(read_once(*reader_, {.file = *id,
                                 .extent = {.offset = 0, .length = 512},
                                 .destination = memory.data(),
                                 .path = ReadPath::cached}),
            -EBADF);
}

// The image is cut below the file's blocks, so the loop device has nothing to answer with.
TEST_P(ReaderFailures, TellsEioOfADeviceThatFails) {
  std::string missing;
  const auto image = LoopImage::make(folder_.path(), "ext4", 64 * mib, missing);
  if (image == nullptr) GTEST_SKIP() << "requires " << missing;
  const auto path = image->root() / "model";
  write_durably(path, random_bytes(16 * mib, 1));
  ASSERT_TRUE(image->remount_read_only());
  drop_from_page_cache(path);
  file_ = *CheckpointFile::open(path);
  id_ = *reader_->add(file_->cached_fd(), file_->direct_fd());
  ASSERT_EQ(::truncate(image->image().c_str(), 4 * mib), 0);

  const SlotId slot = *ring_->take();
  const std::uint64_t last = 16 * mib - slot_bytes;
  for (const ReadPath way : {ReadPath::cached, ReadPath::direct}) {
    if (way == ReadPath::direct && !has_direct()) continue;
    EXPECT_EQ(read_once(*reader_, op(last, slot_bytes, way, ring_->address(slot))), -EIO);
  }
  reader_->remove(id_);
  file_.reset();
}

TEST_P(ReaderFailures, AnswersEveryOpAfterACancel) {
  use_file(8 * mib);
  const auto memory = Mapping::anonymous(depth * slot_bytes);
  ASSERT_TRUE(memory);
  std::array<ReadOp, depth> ops;
  for (int round = 0; round < 20; ++round) {
    drop_from_page_cache(folder_ / "file");
    for (std::uint64_t index = 0; index < depth; ++index) {
      const ReadPath way = index % 2 == 0 && has_direct() ? ReadPath::direct : ReadPath::cached;
      ops[index] = op(index * slot_bytes, slot_bytes, way, memory->data() + index * slot_bytes, index);
    }
    ASSERT_TRUE(reader_->submit(ops));
    reader_->cancel_all();
    for (const ReadDone& done : reap_all(*reader_, depth)) {
      if (done.result == -ECANCELED || done.result == -EINTR) continue;
      ASSERT_EQ(done.result, static_cast<std::int32_t>(slot_bytes));
      const std::uint64_t at = done.tag * slot_bytes;
      EXPECT_TRUE(std::ranges::equal(memory->bytes().subspan(at, slot_bytes),
                                     std::span(content_).subspan(at, slot_bytes)));
    }
    EXPECT_EQ(reader_->in_flight(), 0u);
  }
  ASSERT_EQ(read_once(*reader_, op(0, 4096, ReadPath::cached, memory->data())), 4096) << "usable afterwards";
}

// The memory is poisoned right after the reader is gone: a read that still lands would show.
TEST_P(ReaderFailures, WritesNothingAfterItsDestruction) {
  use_file(8 * mib);
  const auto memory = Mapping::anonymous(depth * slot_bytes);
  ASSERT_TRUE(memory);
  std::array<ReadOp, depth> ops;
  for (std::uint64_t index = 0; index < depth; ++index) {
    const ReadPath way = has_direct() ? ReadPath::direct : ReadPath::cached;
    ops[index] = op(index * slot_bytes, slot_bytes, way, memory->data() + index * slot_bytes, index);
  }
  ASSERT_TRUE(reader_->submit(ops));
  reader_.reset();
  std::ranges::fill(memory->bytes(), std::byte{0xa5});
  bring_into_page_cache(folder_ / "file");
  EXPECT_EQ(std::ranges::count(memory->bytes(), std::byte{0xa5}), static_cast<std::int64_t>(memory->size()));
}

INSTANTIATE_TEST_SUITE_P(Rungs, ReaderFailures,
                         testing::Values(Rung::uring, Rung::uring_unregistered, Rung::pread), rung_name);

}  // namespace
}  // namespace penstock::test
