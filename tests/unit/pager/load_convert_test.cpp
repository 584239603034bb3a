// SPDX-License-Identifier: Apache-2.0
// Assembled tables: what a page holds whose pieces are converted on the way.
#include <algorithm>
#include <cerrno>
#include <cstring>

#include <gtest/gtest.h>

#include "dataplane/kernels/convert.hpp"
#include "tests/unit/pager/load_rig.hpp"

namespace penstock::test {
namespace {

constexpr TableId table{3};
constexpr std::uint64_t frame = 64 * 1024;
constexpr std::uint64_t weight_bytes = 40'000;  // fp8: as many elements.

// A file with an fp8 weight, then an F32 scalar that scales it.
struct ScaledFile {
  explicit ScaledFile(const TemporaryFolder& folder, float scale) {
    bytes.resize(weight_bytes + sizeof scale);
    for (std::size_t at = 0; at < weight_bytes; ++at)
      bytes[at] = std::byte{static_cast<unsigned char>(at % 120)};
    std::memcpy(bytes.data() + weight_bytes, &scale, sizeof scale);
    auto opened = CheckpointFile::open(folder.write("scaled", bytes));
    EXPECT_TRUE(opened.has_value());
    file = *opened;
  }
  std::vector<std::byte> bytes;
  std::shared_ptr<CheckpointFile> file;
};

std::shared_ptr<const TableSource> widened(const ScaledFile& scaled, int pieces = 1) {
  std::vector<LayoutPiece> layout;
  for (int piece = 0; piece < pieces; ++piece) {
    layout.push_back({.table_offset = static_cast<std::uint64_t>(piece) * 4 * weight_bytes,
                      .table_bytes = 4 * weight_bytes,
                      .source = {0, weight_bytes},
                      .stored = Dtype::f8_e4m3,
                      .wanted = Dtype::f32,
                      .scale_source = Extent{weight_bytes, 4}});
  }
  const std::uint64_t file_bytes = scaled.bytes.size();
  auto assembled = PageLayout::assembled(std::move(layout), {&file_bytes, 1}, frame);
  EXPECT_TRUE(assembled.has_value());
  return std::make_shared<const TableSource>(TableSource{.layout = *assembled, .files = {scaled.file}});
}

TEST(LoadPipeline, WidensAWeightWithTheScaleThatTheFileHolds) {
  LoadRig rig;
  const ScaledFile scaled(rig.folder, 0.375f);
  rig.pipeline->open(table, widened(scaled));
  std::vector<FrameId> frames;
  for (std::uint32_t page = 0; page < 3; ++page) frames.push_back(rig.load(table, page));
  rig.settle();
  EXPECT_EQ(rig.take_loaded().size(), 3u);
  std::vector<std::byte> expected(3 * frame);
  convert(Dtype::f8_e4m3, std::span(scaled.bytes).first(weight_bytes), Dtype::f32,
          std::span(expected).first(4 * weight_bytes), 0.375f);
  for (std::uint32_t page = 0; page < 3; ++page) {
    const std::vector<std::byte> content = rig.content(frames[page]);
    EXPECT_TRUE(std::equal(content.begin(), content.end(), expected.begin() + page * frame))
        << "page " << page;
  }
}

TEST(LoadPipeline, ReadsAScaleOnceForAllPagesOfATable) {
  LoadRig rig;
  const ScaledFile scaled(rig.folder, 2.0f);
  rig.pipeline->open(table, widened(scaled));
  const auto scale_reads = [&] {
    return std::count_if(rig.reader->history().begin(), rig.reader->history().end(), [](const ReadOp& op) {
      return op.extent.offset <= weight_bytes && op.extent.end() > weight_bytes && op.extent.length <= 8192;
    });
  };
  rig.load(table, 0);
  EXPECT_TRUE(rig.loaded_one_well());
  const auto once = scale_reads();
  EXPECT_GE(once, 1);
  rig.load(table, 1);
  EXPECT_TRUE(rig.loaded_one_well());
  EXPECT_EQ(scale_reads(), once);
}

TEST(LoadPipeline, ReadsMoreScalesThanItHasLanes) {
  LoadRig rig;
  const ScaledFile scaled(rig.folder, 2.0f);
  const int pieces = static_cast<int>(TableScales::lanes) * 2 + 3;
  rig.pipeline->open(table, widened(scaled, pieces));
  const FrameId filled = rig.load(table, static_cast<std::uint32_t>(pieces * 4 * weight_bytes / frame));
  EXPECT_TRUE(rig.loaded_one_well());
  const std::vector<std::byte> content = rig.content(filled);
  EXPECT_TRUE(
      std::any_of(content.begin(), content.end(), [](std::byte byte) { return byte != std::byte{}; }));
}

TEST(LoadPipeline, FailsPagesWhoseScaleCannotBeReadAndTriesAgainLater) {
  LoadRig rig;
  const ScaledFile scaled(rig.folder, 2.0f);
  rig.pipeline->open(table, widened(scaled));
  rig.reader->answer_next(-EIO);
  rig.load(table, 0);
  rig.load(table, 1);
  rig.settle();
  const std::vector<Loaded> loaded = rig.take_loaded();
  ASSERT_EQ(loaded.size(), 2u);
  EXPECT_EQ(loaded[0].reason, FailureKind::io_error);
  EXPECT_FALSE(loaded[1].ok);
  rig.load(table, 0, Urgency::fault, Generation{2});
  EXPECT_TRUE(rig.loaded_one_well());
}

TEST(LoadPipeline, EndsCancelledPagesThatWaitForScales) {
  LoadRig rig;
  const ScaledFile scaled(rig.folder, 2.0f);
  rig.pipeline->open(table, widened(scaled));
  rig.reader->hold();
  rig.load(table, 0);
  rig.settle();
  rig.pipeline->cancel({.page = {.table = table, .index = 0}, .generation = Generation{1}});
  rig.settle();
  EXPECT_EQ(rig.take_loaded().size(), 1u);
  EXPECT_TRUE(rig.pipeline->busy(table));  // The scale is still being read.
  rig.reader->release();
  rig.settle();
  EXPECT_FALSE(rig.pipeline->busy(table));
  rig.pipeline->close(table);
}

}  // namespace
}  // namespace penstock::test
