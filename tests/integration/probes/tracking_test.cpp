// SPDX-License-Identifier: Apache-2.0
// Which file is followed: the one behind the client's descriptor, by whatever path, and no other.
#include <array>
#include <latch>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "dataplane/base/units.hpp"
#include "tests/integration/probes/probed_file.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/random_file.hpp"

namespace penstock {
namespace {

using test::Disk;
using test::ProbedFile;

constexpr std::uint64_t file_bytes = 4 * mib;

std::uint64_t inode_of(const std::filesystem::path& path) {
  struct stat status {};
  EXPECT_EQ(::stat(path.c_str(), &status), 0);
  return status.st_ino;
}

// Reads pieces of a file and lets go of others; under way once this is made, over once it is gone.
class Traffic {
 public:
  Traffic(const std::filesystem::path& path, std::uint64_t bytes, unsigned seed)
      : thread_([this, path, bytes, seed](const std::stop_token& stop) {
          const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
          // Folios of one page each take the kernel the longest to look through.
          (void)::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_RANDOM);
          std::array<char, 16 * kib> piece;
          std::minstd_rand random(seed);
          const auto somewhere = [&] {
            return static_cast<off_t>(random() % (bytes / piece.size()) * piece.size());
          };
          while (!stop.stop_requested()) {
            (void)!::pread(fd.get(), piece.data(), piece.size(), somewhere());
            if (random() % 3 == 0)
              (void)::posix_fadvise(fd.get(), somewhere(), piece.size(), POSIX_FADV_DONTNEED);
            if (under_way_.try_wait()) continue;
            under_way_.count_down();
          }
        }) {
    under_way_.wait();
  }

 private:
  std::latch under_way_{1};
  std::jthread thread_;
};

class ProbeTracking : public testing::Test {
 protected:
  void SetUp() override {
    const std::string missing = test::tracing_lacks();
    if (!missing.empty()) GTEST_SKIP() << missing;
    probes_ = KernelProbes::open();
  }
  std::unique_ptr<Disk> disk(const std::string& name) {
    std::unique_ptr<Disk> disk = Disk::make(name, missing_);
    if (disk) test::write_durably(disk->origin() / "checkpoint", test::random_bytes(file_bytes, 3));
    return disk;
  }

  std::unique_ptr<KernelProbes> probes_;
  std::string missing_;
};

TEST_F(ProbeTracking, ATwinWithTheSameInodeNumberOnAnotherDiskCountsNothing) {
  const auto one = disk("ext4"), other = disk("ext4");
  if (!one || !other) GTEST_SKIP() << "requires " << missing_;
  ASSERT_EQ(inode_of(one->folder() / "checkpoint"), inode_of(other->folder() / "checkpoint"));
  test::drop_from_page_cache(one->folder() / "checkpoint");
  test::drop_from_page_cache(other->folder() / "checkpoint");
  ProbedFile read(*probes_, one->folder() / "checkpoint");
  ProbedFile twin(*probes_, other->folder() / "checkpoint");
  test::bring_into_page_cache(one->folder() / "checkpoint");
  EXPECT_EQ(read.sample().traffic->added_bytes, file_bytes);
  EXPECT_EQ(twin.sample().traffic->added_bytes, 0u);
  EXPECT_EQ(twin.sample().resident_bytes, 0u);
  EXPECT_EQ(read.tracking().seen->inode, twin.tracking().seen->inode);
  EXPECT_NE(read.tracking().seen->device, twin.tracking().seen->device);
}

TEST_F(ProbeTracking, TheFileOfAnOverlayIsTheOneBelow) {
  const auto overlay = disk("overlay");
  if (!overlay) GTEST_SKIP() << "requires " << missing_;
  ProbedFile above(*probes_, overlay->folder() / "checkpoint");
  ProbedFile below(*probes_, overlay->origin() / "checkpoint");
  EXPECT_EQ(above.tracking().counters, below.tracking().counters);
  EXPECT_EQ(above.tracking().seen->inode, inode_of(overlay->origin() / "checkpoint"));
}

TEST_F(ProbeTracking, AFileThatIsCopiedUpIsNoLongerTheOneThatWasTraced) {
  const auto overlay = disk("overlay");
  if (!overlay) GTEST_SKIP() << "requires " << missing_;
  ProbedFile above(*probes_, overlay->folder() / "checkpoint");
  test::bring_into_page_cache(overlay->folder() / "checkpoint");
  probes_->look_for_unlinked();
  EXPECT_FALSE(above.sample().copied_up);
  EXPECT_TRUE(above.sample().traffic);
  {
    const UniqueFd writer(::open((overlay->folder() / "checkpoint").c_str(), O_RDWR | O_CLOEXEC));
    ASSERT_TRUE(writer);
  }
  probes_->look_for_unlinked();
  EXPECT_TRUE(above.sample().copied_up);
  EXPECT_FALSE(above.sample().traffic);
  EXPECT_FALSE(above.sample().resident_bytes);
  // The file below is one of its own, and the one above another.
  ProbedFile below(*probes_, overlay->origin() / "checkpoint");
  ProbedFile again(*probes_, overlay->folder() / "checkpoint");
  EXPECT_EQ(below.tracking().seen->inode, inode_of(overlay->origin() / "checkpoint"));
  EXPECT_NE(again.tracking().counters, below.tracking().counters);
  EXPECT_TRUE(again.sample().traffic);
}

// Two containers of one image: their overlays show the same file below.
class TwoOverlays : public ProbeTracking {
 protected:
  void SetUp() override {
    ProbeTracking::SetUp();
    if (IsSkipped()) return;
    first_ = disk("overlay");
    if (!first_) GTEST_SKIP() << "requires " << missing_;
    const std::filesystem::path scratch = first_->scratch();
    const std::filesystem::path image = first_->origin().parent_path();
    for (const std::filesystem::path& folder : {image / "upper2", image / "work2", scratch / "merged2"})
      std::filesystem::create_directory(folder);
    second_ = scratch / "merged2";
    if (!test::mount_overlay(first_->origin(), image / "upper2", image / "work2", second_)) {
      second_.clear();
      GTEST_SKIP() << "requires the right to mount overlayfs";
    }
    below_path_ = first_->origin() / "checkpoint";
    a_path_ = first_->folder() / "checkpoint";
    b_path_ = second_ / "checkpoint";
    a_ = std::make_unique<ProbedFile>(*probes_, a_path_);
    b_ = std::make_unique<ProbedFile>(*probes_, b_path_);
  }
  void TearDown() override {
    a_.reset();
    b_.reset();
    if (!second_.empty()) test::unmount(second_);
  }
  void copy_up(const std::filesystem::path& path) {
    std::filesystem::permissions(path, std::filesystem::perms(0600));
    probes_->look_for_unlinked();
  }
  static void expect_gone(ProbedFile& file) {
    EXPECT_TRUE(file.sample().copied_up);
    EXPECT_FALSE(file.sample().traffic);
    EXPECT_FALSE(file.sample().resident_bytes);
  }
  // That the figures are those of the file below, and live.
  void expect_followed(ProbedFile& file) {
    test::drop_from_page_cache(below_path_);
    EXPECT_EQ(disagreement(file, RemovalCause::fadvise, test::Removes::what_it_can), "");
    test::bring_into_page_cache(below_path_);
    EXPECT_EQ(disagreement(file, RemovalCause::other), "");
    EXPECT_FALSE(file.sample().copied_up);
  }

  std::unique_ptr<Disk> first_;
  std::filesystem::path second_, below_path_, a_path_, b_path_;
  std::unique_ptr<ProbedFile> a_, b_;
};

TEST_F(TwoOverlays, ShowOneFileUntilTheOneOpenedFirstIsCopiedUp) {
  EXPECT_EQ(a_->tracking().counters, b_->tracking().counters);
  expect_followed(*a_);
  copy_up(a_path_);
  expect_gone(*a_);
  expect_followed(*b_);
  copy_up(b_path_);
  expect_gone(*a_);
  expect_gone(*b_);
}

TEST_F(TwoOverlays, TheOneOpenedSecondIsCopiedUpAlone) {
  copy_up(b_path_);
  expect_gone(*b_);
  expect_followed(*a_);
}

TEST_F(TwoOverlays, TheOtherIsFollowedStillWhenTheFirstIsClosed) {
  copy_up(a_path_);
  a_.reset();
  expect_followed(*b_);
  b_ = std::make_unique<ProbedFile>(*probes_, b_path_);
  expect_followed(*b_);
  a_ = std::make_unique<ProbedFile>(*probes_, a_path_);
  EXPECT_NE(a_->tracking().counters, b_->tracking().counters);
  EXPECT_TRUE(a_->sample().traffic);
}

TEST_F(ProbeTracking, ASubvolumeOfBtrfsIsFollowedThoughStatNamesAnotherDevice) {
  const auto btrfs = disk("btrfs");
  if (!btrfs) GTEST_SKIP() << "requires " << missing_;
  ProbedFile file(*probes_, btrfs->folder() / "checkpoint");
  struct stat status {};
  ASSERT_EQ(::fstat(file.fd(), &status), 0);
  EXPECT_EQ(file.tracking().seen->inode, status.st_ino);
  EXPECT_NE(makedev(file.tracking().seen->device >> 20, file.tracking().seen->device & 0xfffff),
            status.st_dev);
}

TEST_F(ProbeTracking, BindMountsAndHardLinksAreOneFile) {
  const auto ext4 = disk("ext4");
  if (!ext4) GTEST_SKIP() << "requires " << missing_;
  const std::filesystem::path path = ext4->folder() / "checkpoint";
  std::filesystem::create_hard_link(path, ext4->folder() / "link");
  test::TemporaryFolder bound;
  ASSERT_EQ(::mount(ext4->folder().c_str(), bound.path().c_str(), nullptr, MS_BIND, nullptr), 0);
  {
    ProbedFile file(*probes_, path);
    ProbedFile link(*probes_, ext4->folder() / "link");
    ProbedFile elsewhere(*probes_, bound / "checkpoint");
    EXPECT_EQ(file.tracking().counters, link.tracking().counters);
    EXPECT_EQ(file.tracking().counters, elsewhere.tracking().counters);
  }
  test::unmount(bound.path());
}

TEST_F(ProbeTracking, WhatTmpfsAddsIsNotTracedSoThatItIsAskedForInstead) {
  const auto tmpfs = disk("tmpfs");
  if (!tmpfs) GTEST_SKIP() << "requires " << missing_;
  ProbedFile file(*probes_, tmpfs->folder() / "checkpoint");
  EXPECT_LT(file.tracking().level, ProbeLevel::traced);
  EXPECT_NE(file.tracking().why.find("tmpfs"), std::string::npos) << file.tracking().why;
  EXPECT_FALSE(file.tracking().seen);
  const test::FileCounts counts = file.counts();
  EXPECT_FALSE(counts.sample.traffic);
  EXPECT_EQ(counts.sample.resident_bytes, counts.mincore_bytes());
  EXPECT_EQ(counts.mincore_pages, divide_up(file_bytes, test::probed_page_bytes));
}

TEST_F(ProbeTracking, AnUntrackedFileLeavesItsPlaceToTheNextWithNothingInIt) {
  const auto ext4 = disk("ext4");
  if (!ext4) GTEST_SKIP() << "requires " << missing_;
  for (int again = 0; again < 3; ++again) {
    ProbedFile file(*probes_, ext4->folder() / "checkpoint");
    const test::FileCounts counts = file.counts();
    EXPECT_EQ(counts.sample.traffic->added_bytes, 0u);
    EXPECT_EQ(counts.sample.resident_bytes, counts.mincore_bytes());
    test::drop_from_page_cache(ext4->folder() / "checkpoint");
    test::bring_into_page_cache(ext4->folder() / "checkpoint");
    EXPECT_EQ(file.sample().traffic->added_bytes, file_bytes);
  }
}

// The kernel's answer about them takes several reads.
TEST_F(ProbeTracking, HundredsOfFilesAreFollowedAtOnce) {
  const test::DiskFolder folder;
  if (!folder.missing().empty()) GTEST_SKIP() << "requires " << folder.missing();
  std::vector<std::unique_ptr<ProbedFile>> files;
  for (int number = 0; number < 300; ++number) {
    const auto path = folder / ("m" + std::to_string(number));
    test::write_durably(path, test::random_bytes(4096, 3));
    files.push_back(std::make_unique<ProbedFile>(*probes_, path));
    ASSERT_EQ(files.back()->tracking().level, probes_->level()) << files.back()->tracking().why;
  }
  for (int round = 0; round < 3; ++round) probes_->reconcile();
  for (const auto& file : files) {
    const test::FileCounts counts = file->counts();
    EXPECT_EQ(counts.sample.resident_bytes, counts.mincore_bytes());
  }
}

TEST_F(ProbeTracking, CountsThatAreRightAreNotCorrected) {
  const auto xfs = disk("xfs");
  if (!xfs) GTEST_SKIP() << "requires " << missing_;
  ProbedFile file(*probes_, xfs->folder() / "checkpoint");
  for (int again = 0; again < 3; ++again) {
    test::drop_from_page_cache(xfs->folder() / "checkpoint");
    probes_->reconcile();
    test::bring_into_page_cache(xfs->folder() / "checkpoint");
    probes_->reconcile();
  }
  EXPECT_EQ(probes_->sample_machine().corrections, 0u);
}

TEST_F(ProbeTracking, AFileThatIsReadWhileTrackingBeginsIsRightInEachExtentOnceItRests) {
  const auto ext4 = disk("ext4");
  if (!ext4) GTEST_SKIP() << "requires " << missing_;
  constexpr std::uint64_t bytes = 128 * mib;
  const std::filesystem::path path = ext4->folder() / "busy";
  test::write_durably(path, {});
  std::filesystem::resize_file(path, bytes);
  const auto fd = std::make_shared<UniqueFd>(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  for (unsigned round = 0; round < 20 && !HasFailure(); ++round) {
    auto traffic = std::make_unique<Traffic>(path, bytes, round + 1);
    const Result<Tracking> tracking = probes_->track(fd->get(), fd);
    ASSERT_TRUE(tracking);
    traffic.reset();
    {
      ProbedFile file(*probes_, path);
      test::FileCounts counts;
      std::uint64_t in_extents = 0;
      // Set right is what was wrong twice, and a page may be taken at any time.
      EXPECT_TRUE(eventually([&] {
        probes_->reconcile();
        counts = file.counts();
        in_extents = 0;
        for (const ExtentSample& extent : counts.extents) in_extents += extent.resident_bytes.value_or(0);
        return counts.sample.resident_bytes == counts.mincore_bytes() && in_extents == counts.mincore_bytes();
      })) << in_extents
          << " bytes over the extents, " << counts.mincore_bytes() << " by mincore, round " << round;
    }
    probes_->untrack(tracking->file);
  }
}

TEST_F(ProbeTracking, AFileIsUnlinkedOnceItsLastNameIsGone) {
  const auto ext4 = disk("ext4");
  if (!ext4) GTEST_SKIP() << "requires " << missing_;
  const std::filesystem::path name = ext4->folder() / "checkpoint", other = ext4->folder() / "other";
  ProbedFile file(*probes_, name);
  std::filesystem::create_hard_link(name, other);
  std::filesystem::remove(name);
  probes_->look_for_unlinked();
  EXPECT_FALSE(file.sample().unlinked);
  std::filesystem::remove(other);
  probes_->look_for_unlinked();
  EXPECT_TRUE(file.sample().unlinked);
}

}  // namespace
}  // namespace penstock
