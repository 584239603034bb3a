// SPDX-License-Identifier: Apache-2.0
// R03: reads are told to be direct only where they are, and load the same bytes everywhere.
#include <gtest/gtest.h>
#include <unistd.h>

#include "dataplane/base/sha256.hpp"
#include "dataplane/base/units.hpp"
#include "tests/integration/reader/load_file.hpp"
#include "tests/support/loop_image.hpp"
#include "tests/support/random_file.hpp"
#include "tests/support/temporary_folder.hpp"

namespace penstock::test {
namespace {

constexpr std::uint64_t model_bytes = 3 * 4096 + 100;

class CaseR03 : public testing::Test {
 protected:
  // Writes the model below `folder`, and loads it through the path that is given.
  void load(const std::filesystem::path& written, const std::filesystem::path& read) {
    const auto content = random_bytes(model_bytes, 3);
    write_durably(written, content);
    drop_from_page_cache(written);
    if (warm_) bring_into_page_cache(read);
    file_ = *CheckpointFile::open(read);
    cached_before_ = cached_pages(read);
    Opened opened = open_stream();
    const Loaded loaded = load_through_slots(*opened.stream, *opened.ring, file_);
    EXPECT_EQ(loaded.sha256, to_hex(sha256(content))) << loaded.failure;
    cached_after_ = cached_pages(read);
    counters_ = loaded.counters;
  }
  void expect_direct() const {
    EXPECT_TRUE(file_->direct().usable) << file_->direct().reason;
    EXPECT_EQ(counters_.direct_bytes, model_bytes);
    EXPECT_EQ(counters_.cached_bytes, 0u);
    EXPECT_EQ(cached_before_, 0u);
    EXPECT_EQ(cached_after_, 0u) << "a direct read grew the page cache";
  }
  void expect_cached() const {
    EXPECT_FALSE(file_->direct().usable);
    EXPECT_STREQ(file_->direct().reason, "STATX_DIOALIGN absent");
    EXPECT_EQ(counters_.direct_bytes, 0u);
    EXPECT_EQ(counters_.cached_bytes, model_bytes);
    EXPECT_GT(cached_after_, 0u);
  }
  // Loads over a loop device; `kind` is what mkfs and mount call it.
  void load_from_image(const std::string& kind, std::uint64_t bytes, const std::string& options = "loop") {
    std::string missing;
    image_ = LoopImage::make(folder_.path(), kind, bytes, missing, options);
    if (image_ == nullptr) GTEST_SKIP() << "requires " << missing;
    load(image_->root() / "model", image_->root() / "model");
  }
  void TearDown() override {
    file_.reset();
    if (!overlay_.empty()) unmount(overlay_);
  }
  // An overlay whose parts lie below `parent`.
  std::filesystem::path overlay_on(const std::filesystem::path& parent) {
    for (const char* const part : {"lower", "upper", "work", "overlay"}) {
      std::filesystem::create_directory(parent / part);
    }
    const bool mounted =
        mount_overlay(parent / "lower", parent / "upper", parent / "work", parent / "overlay");
    if (mounted) overlay_ = parent / "overlay";
    return overlay_;
  }

  bool warm_ = false;  // All of it is cached when it is loaded.
  TemporaryFolder folder_;
  std::unique_ptr<LoopImage> image_;
  std::filesystem::path overlay_;
  std::shared_ptr<CheckpointFile> file_;
  std::uint64_t cached_before_ = 0;
  std::uint64_t cached_after_ = 0;
  ReadCounters counters_;
};

TEST_F(CaseR03, ReadsExt4Direct) {
  load_from_image("ext4", 32 * mib);
  if (!IsSkipped()) expect_direct();
}

TEST_F(CaseR03, ReadsXfsDirect) {
  load_from_image("xfs", 320 * mib);
  if (!IsSkipped()) expect_direct();
}

TEST_F(CaseR03, ReadsBtrfsWithForcedCompressionThroughThePageCache) {
  load_from_image("btrfs", 256 * mib, "loop,compress-force=zstd");
  if (!IsSkipped()) expect_cached();
}

TEST_F(CaseR03, ReadsTmpfsThroughThePageCacheAlthoughItOpensDirect) {
  if (::access("/dev/shm", W_OK) != 0) GTEST_SKIP() << "requires a tmpfs on /dev/shm";
  const TemporaryFolder shared("/dev/shm");
  load(shared / "model", shared / "model");
  if (counters_.direct_bytes > 0) GTEST_SKIP() << "requires a tmpfs on /dev/shm";
  expect_cached();
}

TEST_F(CaseR03, ReadsAnOverlayDirectWhereItsLowerLayerIs) {
  std::string missing;
  image_ = LoopImage::make(folder_.path(), "ext4", 32 * mib, missing);
  if (image_ == nullptr) GTEST_SKIP() << "requires " << missing;
  if (overlay_on(image_->root()).empty())
    GTEST_SKIP() << "requires a kernel and the rights to mount an overlay";
  load(image_->root() / "lower" / "model", overlay_ / "model");
  expect_direct();
}

TEST_F(CaseR03, ReadsAnOverlayThroughThePageCacheWhereThatHoldsAll) {
  std::string missing;
  image_ = LoopImage::make(folder_.path(), "ext4", 32 * mib, missing);
  if (image_ == nullptr) GTEST_SKIP() << "requires " << missing;
  if (overlay_on(image_->root()).empty())
    GTEST_SKIP() << "requires a kernel and the rights to mount an overlay";
  warm_ = true;
  load(image_->root() / "lower" / "model", overlay_ / "model");
  ASSERT_TRUE(file_->residency().available());
  EXPECT_TRUE(file_->direct().usable) << file_->direct().reason;
  EXPECT_EQ(counters_.cached_bytes, model_bytes);
  EXPECT_EQ(counters_.direct_bytes, 0u);
}

TEST_F(CaseR03, ReadsAnOverlayThroughThePageCacheWhereItsUpperLayerIsTmpfs) {
  if (::access("/dev/shm", W_OK) != 0) GTEST_SKIP() << "requires a tmpfs on /dev/shm";
  const TemporaryFolder shared("/dev/shm");
  if (overlay_on(shared.path()).empty())
    GTEST_SKIP() << "requires a kernel and the rights to mount an overlay";
  load(overlay_ / "model", overlay_ / "model");
  expect_cached();
  TearDown();
}

}  // namespace
}  // namespace penstock::test
