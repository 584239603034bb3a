// SPDX-License-Identifier: Apache-2.0
// R04: short reads and the unaligned tail never leave a stale byte behind.
#include <gtest/gtest.h>

#include <algorithm>

#include "dataplane/base/sha256.hpp"
#include "dataplane/base/units.hpp"
#include "dataplane/io/pread_reader.hpp"
#include "dataplane/io/uring_reader.hpp"
#include "tests/integration/reader/load_file.hpp"
#include "tests/support/faulty_reader.hpp"
#include "tests/support/random_file.hpp"
#include "tests/support/temporary_folder.hpp"

namespace penstock::test {
namespace {

constexpr std::uint64_t model_bytes = 3 * 4096 + 100;
enum class Rung { uring, uring_unregistered, pread };

std::string rung_name(const testing::TestParamInfo<Rung>& info) {
  if (info.param == Rung::uring) return "Uring";
  return info.param == Rung::pread ? "Pread" : "UringUnregistered";
}

class CaseR04 : public testing::TestWithParam<Rung> {
 protected:
  void SetUp() override {
    content_ = random_bytes(model_bytes, 4);
    std::ranges::replace(content_, std::byte{0xa5},
                         std::byte{0x5a});  // So that a poisoned byte is known as such.
    write_durably(folder_ / "model", content_);
    drop_from_page_cache(folder_ / "model");
    file_ = *CheckpointFile::open(folder_ / "model");
    ring_ = *PinnedRing::make({.slot_bytes = 8192, .slots = 4, .reserved_huge_pages = false});
    ReaderOptions options{.queue_depth = 8, .register_buffers = GetParam() == Rung::uring};
    auto reader =
        GetParam() == Rung::pread ? PreadReader::open(options) : UringReader::open(options, ring_.get());
    if (!reader) GTEST_SKIP() << "requires io_uring, which this system refuses";
    auto faulty = std::make_unique<FaultyReader>(*std::move(reader));
    faults_ = faulty.get();
    stream_ = *ReadStream::make(std::move(faulty), nullptr, {});
  }
  Loaded load() { return load_through_slots(*stream_, *ring_, file_); }
  std::string expected() const { return to_hex(sha256(content_)); }
  void expect_aligned_history() const {
    const std::uint32_t granule = file_->direct().offset_granule;
    for (const ReadOp& op : faults_->history()) {
      if (op.path == ReadPath::cached) continue;
      EXPECT_EQ(op.extent.offset % granule, 0u);
      EXPECT_EQ(op.extent.length % granule, 0u);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(op.destination) % granule, 0u);
    }
  }

  TemporaryFolder folder_;
  std::vector<std::byte> content_;
  std::shared_ptr<CheckpointFile> file_;
  std::unique_ptr<PinnedRing> ring_;
  FaultyReader* faults_ = nullptr;
  std::unique_ptr<ReadStream> stream_;
};

TEST_P(CaseR04, TakesATailOfOneHundredBytesAsTheEnd) {
  const Loaded loaded = load();
  EXPECT_EQ(loaded.sha256, expected());
  EXPECT_EQ(loaded.counters.short_reads, 0u);
  EXPECT_EQ(faults_->history().size(), 2u) << "nothing is read twice";
}

TEST_P(CaseR04, LoadsEveryByteHoweverLittleACompletionBrings) {
  for (const std::uint32_t limit : {1000u, 4096u, 1u}) {
    SCOPED_TRACE(limit);
    drop_from_page_cache(folder_ / "model");
    const std::uint64_t told_before = stream_->counters().short_reads;
    const std::uint64_t cut_before = faults_->cut();
    faults_->limit_results(limit);
    const Loaded loaded = load();
    EXPECT_EQ(loaded.sha256, expected()) << loaded.failure;
    EXPECT_GT(faults_->cut(), cut_before);
    EXPECT_EQ(loaded.counters.short_reads - told_before, faults_->cut() - cut_before);
    expect_aligned_history();
  }
}

TEST_P(CaseR04, FailsWhereTheFileEndsBeforeItsKnownEnd) {
  faults_->end_at(8192);
  const Loaded loaded = load();
  EXPECT_EQ(loaded.failure, "unexpected end at 8192 of 12388");
  EXPECT_TRUE(loaded.sha256.empty());
  EXPECT_EQ(loaded.counters.unexpected_ends, 1u);
  EXPECT_EQ(ring_->free_slots(), ring_->slots());
}

TEST_P(CaseR04, FailsInTheMiddleOfAnExtentAtTheByteItReached) {
  faults_->limit_results(4096);
  faults_->end_at(8192 + 4096);
  const Loaded loaded = load();
  // The first read of the second extent covers the offset, and is the one that tells the end.
  EXPECT_EQ(loaded.failure, "unexpected end at 8192 of 12388");
}

INSTANTIATE_TEST_SUITE_P(Rungs, CaseR04, testing::Values(Rung::uring, Rung::uring_unregistered, Rung::pread),
                         rung_name);

}  // namespace
}  // namespace penstock::test
