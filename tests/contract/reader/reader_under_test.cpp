// SPDX-License-Identifier: Apache-2.0
#include "tests/contract/reader/reader_under_test.hpp"

#include "dataplane/base/check.hpp"
#include "dataplane/io/pread_reader.hpp"
#include "dataplane/io/uring_reader.hpp"
#include "tests/support/random_file.hpp"

namespace penstock::test {

std::string rung_name(const testing::TestParamInfo<Rung>& info) {
  switch (info.param) {
    case Rung::uring: return "Uring";
    case Rung::uring_unregistered: return "UringUnregistered";
    case Rung::pread: return "Pread";
  }
  return "Unknown";
}

void ReaderTest::SetUp() {
  auto ring = PinnedRing::make({.slot_bytes = slot_bytes, .slots = depth, .reserved_huge_pages = false});
  ASSERT_TRUE(ring) << ring.error().message;
  ring_ = *std::move(ring);
  reader_ = open_reader_of_this_rung({.queue_depth = depth, .files_max = files_max});
  if (reader_ == nullptr) GTEST_SKIP() << "requires io_uring, which this system refuses";
}

std::unique_ptr<FileReader> ReaderTest::open_reader_of_this_rung(const ReaderOptions& options) const {
  ReaderOptions chosen = options;
  chosen.register_buffers = GetParam() == Rung::uring;
  auto reader =
      GetParam() == Rung::pread ? PreadReader::open(chosen) : UringReader::open(chosen, ring_.get());
  return reader ? *std::move(reader) : nullptr;
}

void ReaderTest::use_file(std::uint64_t bytes) {
  content_ = random_bytes(bytes, bytes);
  write_durably(folder_ / "file", content_);
  drop_from_page_cache(folder_ / "file");
  auto file = CheckpointFile::open(folder_ / "file");
  ASSERT_TRUE(file) << file.error().message;
  file_ = *std::move(file);
  const auto id = reader_->add(file_->cached_fd(), file_->direct_fd());
  ASSERT_TRUE(id);
  id_ = *id;
}

ReadOp ReaderTest::op(std::uint64_t offset, std::uint64_t length, ReadPath path, std::byte* destination,
                      std::uint64_t tag) const {
  return ReadOp{.file = id_,
                .extent = {.offset = offset, .length = length},
                .destination = destination,
                .path = path,
                .tag = tag};
}

}  // namespace penstock::test
