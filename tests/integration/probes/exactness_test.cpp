// SPDX-License-Identifier: Apache-2.0
// What the probe counts equals what mincore says, to the page, whatever is done to a file and wherever it lies.
#include <cstdlib>
#include <fstream>
#include <map>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "dataplane/base/units.hpp"
#include "tests/integration/headroom/limited_cgroup.hpp"
#include "tests/integration/probes/direct_reader.hpp"
#include "tests/integration/probes/probed_file.hpp"
#include "tests/integration/probes/ring.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/random_file.hpp"

namespace penstock {
namespace {

using test::disagreement;
using test::Disk;
using test::ProbedFile;

// How often, and on how large a file: `otherwise`, or what whoever runs the tests wants.
std::uint64_t wanted(const char* variable, int otherwise) {
  const char* const text = std::getenv(variable);
  return static_cast<std::uint64_t>(std::max(1, text != nullptr ? std::atoi(text) : otherwise));
}

int rounds() { return static_cast<int>(wanted("PENSTOCK_PROBE_ROUNDS", 10)); }

const std::uint64_t eighth = wanted("PENSTOCK_PROBE_FILE_MIB", 8) * mib / 8;
const std::uint64_t file_bytes = 8 * eighth + 12345;
const std::uint64_t limit_bytes = 4 * eighth;

const std::vector<std::byte>& content() {
  static const std::vector<std::byte> bytes = test::random_bytes(file_bytes, 7);
  return bytes;
}

void touch_every_eighth_page(int fd) {
  void* const memory = ::mmap(nullptr, file_bytes, PROT_READ, MAP_SHARED, fd, 0);
  ASSERT_NE(memory, MAP_FAILED);
  ASSERT_EQ(::madvise(memory, file_bytes, MADV_RANDOM), 0);
  const volatile char* const bytes = static_cast<const char*>(memory);
  for (std::uint64_t at = 0; at < file_bytes; at += 8 * test::probed_page_bytes) (void)bytes[at];
  ::munmap(memory, file_bytes);
}

void remove_through_mapping(int fd, std::uint64_t offset, std::uint64_t length) {
  void* const memory =
      ::mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, static_cast<off_t>(offset));
  ASSERT_NE(memory, MAP_FAILED);
  EXPECT_EQ(::madvise(memory, length, MADV_REMOVE), 0);
  ::munmap(memory, length);
}

void forget(int fd, std::uint64_t offset = 0, std::uint64_t length = 0) {
  ASSERT_EQ(::posix_fadvise(fd, static_cast<off_t>(offset), static_cast<off_t>(length), POSIX_FADV_DONTNEED),
            0);
}

// A file on a disk of each kind, made once: making a file system takes longer than a test.
Disk* disk_of(const std::string& name, std::string& missing) {
  static std::map<std::string, std::unique_ptr<Disk>> disks;
  std::unique_ptr<Disk>& disk = disks[name];
  if (!disk) disk = Disk::make(name, missing);
  return disk.get();
}

class Exactness : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    std::string missing = test::tracing_lacks();
    if (!missing.empty()) GTEST_SKIP() << missing;
    Disk* const disk = disk_of(GetParam(), missing);
    if (disk == nullptr) GTEST_SKIP() << "requires " << missing;
    path_ = disk->folder() / "checkpoint";
    origin_ = disk->origin() / "checkpoint";
    test::write_durably(origin_, content());
    // Loading takes longer than a round; the place of each test's file is used again.
    if (!probes_) probes_ = KernelProbes::open();
    file_ = std::make_unique<ProbedFile>(*probes_, path_);
  }
  static void TearDownTestSuite() { probes_.reset(); }

  void expect_agreement(const char* after, RemovalCause cause,
                        test::Removes removes = test::Removes::something) {
    EXPECT_EQ(disagreement(*file_, cause, removes), "") << "after " << after << " on " << GetParam();
  }

  std::filesystem::path path_, origin_;
  static std::unique_ptr<KernelProbes> probes_;
  std::unique_ptr<ProbedFile> file_;
};

std::unique_ptr<KernelProbes> Exactness::probes_;

TEST_P(Exactness, ReadingTouchingAndForgettingAreCountedToThePage) {
  ASSERT_EQ(file_->tracking().why, "");
  expect_agreement("tracking", RemovalCause::other);
  for (int round = 0; round < rounds() && !HasFailure(); ++round) {
    forget(file_->fd());
    expect_agreement("fadvise of all", RemovalCause::fadvise);
    EXPECT_EQ(file_->mincore_pages(), 0u);
    EXPECT_TRUE(eventually([&] {  // Others' reclaim may take a page at any time.
      test::bring_into_page_cache(path_);
      return file_->mincore_pages() == divide_up(file_bytes, test::probed_page_bytes);
    }));
    expect_agreement("read", RemovalCause::other);
    forget(file_->fd(), eighth, 3 * eighth + 5000);
    expect_agreement("fadvise of a part", RemovalCause::fadvise);
    touch_every_eighth_page(file_->fd());
    expect_agreement("touching through a mapping", RemovalCause::other);
  }
}

TEST_P(Exactness, ALimitOfACgroupIsTheCauseOfWhatItTakes) {
  std::string why;
  const auto cgroup = test::LimitedCgroup::make(limit_bytes, why);
  if (!cgroup) GTEST_SKIP() << why;
  for (int round = 0; round < rounds() && !HasFailure(); ++round) {
    forget(file_->fd());
    expect_agreement("fadvise", RemovalCause::fadvise);
    const FileTraffic before = *file_->sample().traffic;
    ASSERT_EQ(cgroup->run([&] { return test::read_in_pieces(path_) && test::read_in_pieces(path_) ? 0 : 1; }),
              0);
    expect_agreement("reading twice under a limit", RemovalCause::memcg_limit);
    const FileTraffic after = *file_->sample().traffic;
    constexpr auto limit = static_cast<std::size_t>(RemovalCause::memcg_limit);
    EXPECT_GE(after.removed_bytes[limit] - before.removed_bytes[limit], file_bytes - limit_bytes);
    EXPECT_GT(after.refaulted_bytes, before.refaulted_bytes);
    // Over all rounds: what one round lost may be back in the next.
    EXPECT_LE(after.refaulted_bytes, after.removed_bytes[limit]);
  }
}

TEST_P(Exactness, CuttingTheFileIsToldApart) {
  for (int round = 0; round < rounds() && !HasFailure(); ++round) {
    test::write_durably(origin_, content());
    const UniqueFd writable(::open(origin_.c_str(), O_RDWR | O_CLOEXEC));
    // Writing it anew cut it to nothing first; pages came in a write.
    expect_agreement("writing", RemovalCause::truncate);
    test::bring_into_page_cache(path_);
    ASSERT_EQ(::ftruncate(writable.get(), static_cast<off_t>(4 * eighth + 777)), 0);
    expect_agreement("truncate", RemovalCause::truncate);
    ASSERT_EQ(::fallocate(writable.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                          static_cast<off_t>(eighth), static_cast<off_t>(2 * eighth)),
              0);
    expect_agreement("punching a hole", RemovalCause::truncate);
    test::bring_into_page_cache(path_);
    expect_agreement("reading", RemovalCause::other);
    remove_through_mapping(writable.get(), 3 * eighth, eighth);
    expect_agreement("madvise that removes", RemovalCause::truncate);
  }
}

TEST_P(Exactness, WhatIsCutThroughARingIsToldFromWhatIsForgottenThere) {
  test::Ring ring;
  if (!ring) GTEST_SKIP() << "requires io_uring";
  for (int round = 0; round < rounds() && !HasFailure(); ++round) {
    test::write_durably(origin_, content());
    const UniqueFd writable(::open(origin_.c_str(), O_RDWR | O_CLOEXEC));
    expect_agreement("writing", RemovalCause::truncate, test::Removes::what_it_can);
    test::bring_into_page_cache(path_);
    ASSERT_TRUE(ring.punch_hole(writable.get(), eighth, eighth));
    expect_agreement("punching a hole through a ring", RemovalCause::truncate);
    ASSERT_TRUE(ring.forget(file_->fd(), 0, file_bytes));
    expect_agreement("fadvise through a ring", RemovalCause::fadvise);
  }
}

// Overwrites share the file's lock with direct readers, which put their names over the writer's.
TEST_P(Exactness, ADirectWriteIsToldApartAlsoWhileTheFileIsRead) {
  const UniqueFd direct(::open(origin_.c_str(), O_RDWR | O_DIRECT | O_CLOEXEC));
  if (!direct) GTEST_SKIP() << "requires direct writes on " << GetParam();
  const test::AlignedBytes written(3 * eighth);
  // btrfs writes through the page cache where that holds pages, and drops those that it is done with at the end.
  const auto removes =
      GetParam() == std::string_view("btrfs") ? test::Removes::what_it_can : test::Removes::something;
  const auto overwrite = [&] {
    return ::pwrite(direct.get(), written.data(), written.size(), static_cast<off_t>(eighth)) ==
           static_cast<ssize_t>(written.size());
  };
  for (int round = 0; round < rounds() && !HasFailure(); ++round) {
    test::bring_into_page_cache(path_);
    expect_agreement("reading", RemovalCause::other);
    ASSERT_TRUE(overwrite());
    expect_agreement("a direct write", RemovalCause::direct_write, removes);
  }
  test::DirectReader reader(origin_);
  for (int round = 0; round < rounds() && !HasFailure(); ++round) {
    reader.pause();
    test::bring_into_page_cache(path_);
    expect_agreement("reading", RemovalCause::other);
    ASSERT_TRUE(reader.resume());
    ASSERT_TRUE(overwrite());
    reader.pause();
    // A page that a reader holds at that moment stays, and a read that meets the write may go through the page cache.
    expect_agreement("a direct write among reads", RemovalCause::direct_write, test::Removes::what_it_can);
    ASSERT_TRUE(reader.resume());
  }
}

TEST_P(Exactness, ADirectWriteIsOneByWhateverCallItIsAskedFor) {
  const UniqueFd direct(::open(origin_.c_str(), O_RDWR | O_DIRECT | O_CLOEXEC));
  if (!direct) GTEST_SKIP() << "requires direct writes on " << GetParam();
  const test::AlignedBytes written(3 * eighth);
  const auto at = static_cast<off_t>(eighth);
  const iovec whole{written.data(), written.size()};
  const auto size = static_cast<ssize_t>(written.size());
  const auto removes =
      GetParam() == std::string_view("btrfs") ? test::Removes::what_it_can : test::Removes::something;
  for (int round = 0; round < rounds() && !HasFailure(); ++round) {
    test::bring_into_page_cache(path_);
    expect_agreement("reading", RemovalCause::other);
    ASSERT_EQ(::pwritev(direct.get(), &whole, 1, at), size);
    expect_agreement("pwritev", RemovalCause::direct_write, removes);
    test::bring_into_page_cache(path_);
    expect_agreement("reading", RemovalCause::other);
    ASSERT_EQ(::pwritev2(direct.get(), &whole, 1, at, RWF_DSYNC), size);
    expect_agreement("pwritev2", RemovalCause::direct_write, removes);
    test::bring_into_page_cache(path_);
    expect_agreement("reading", RemovalCause::other);
    ASSERT_EQ(test::write_by_io_submit(direct.get(), whole, at), size);
    expect_agreement("io_submit", RemovalCause::direct_write, removes);
  }
}

INSTANTIATE_TEST_SUITE_P(FileSystems, Exactness, testing::Values("ext4", "xfs", "btrfs", "overlay"),
                         [](const auto& name) { return std::string(name.param); });

// Its pages are no traced ones, and a limit takes none of them without swap: what is resident is asked for.
class ExactnessOfTmpfs : public testing::Test {
 protected:
  void SetUp() override {
    std::string missing = test::tracing_lacks();
    if (!missing.empty()) GTEST_SKIP() << missing;
    Disk* const disk = disk_of("tmpfs", missing);
    if (disk == nullptr) GTEST_SKIP() << "requires " << missing;
    path_ = disk->folder() / "checkpoint";
    test::write_durably(path_, content());
    probes_ = KernelProbes::open();
    file_ = std::make_unique<ProbedFile>(*probes_, path_);
  }
  void expect_pages(const char* after, std::uint64_t pages) {
    const FileSample sample = file_->sample();
    EXPECT_EQ(file_->mincore_pages(), pages) << after;
    EXPECT_EQ(sample.resident_bytes, pages * test::probed_page_bytes) << after;
    EXPECT_FALSE(sample.traffic) << after;
    std::vector<ExtentSample> extents(probes_->extents(file_->id()));
    probes_->sample_extents(file_->id(), extents);
    std::uint64_t in_extents = 0;
    for (const ExtentSample& extent : extents) in_extents += extent.resident_bytes.value_or(0);
    EXPECT_EQ(in_extents, pages * test::probed_page_bytes) << after;
  }

  std::filesystem::path path_;
  std::unique_ptr<KernelProbes> probes_;
  std::unique_ptr<ProbedFile> file_;
};

TEST_F(ExactnessOfTmpfs, WhatIsResidentEqualsMincoreAndNoTrafficIsClaimed) {
  EXPECT_LT(file_->tracking().level, ProbeLevel::traced);
  EXPECT_NE(file_->tracking().why.find("tmpfs"), std::string::npos) << file_->tracking().why;
  std::string why;
  const auto cgroup = test::LimitedCgroup::make(limit_bytes, why);
  if (!cgroup) GTEST_SKIP() << why;
  const std::uint64_t all = divide_up(file_bytes, test::probed_page_bytes);
  for (int round = 0; round < rounds() && !HasFailure(); ++round) {
    test::write_durably(path_, content());
    expect_pages("writing", all);
    ASSERT_EQ(cgroup->run([&] { return test::read_in_pieces(path_) ? 0 : 1; }), 0);
    expect_pages("reading under a limit", all);
    const UniqueFd writable(::open(path_.c_str(), O_RDWR | O_CLOEXEC));
    ASSERT_EQ(::ftruncate(writable.get(), static_cast<off_t>(4 * eighth + 777)), 0);
    const std::uint64_t kept = divide_up(4 * eighth + 777, test::probed_page_bytes);
    expect_pages("truncate", kept);
    ASSERT_EQ(::fallocate(writable.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                          static_cast<off_t>(eighth), static_cast<off_t>(2 * eighth)),
              0);
    expect_pages("punching a hole", kept - 2 * eighth / test::probed_page_bytes);
  }
}

class ExactnessOfAll : public testing::Test {
 protected:
  void SetUp() override {
    if (std::getenv("PENSTOCK_OWN_MACHINE") == nullptr) {
      GTEST_SKIP() << "requires PENSTOCK_OWN_MACHINE=1: it drops the page cache of the whole machine";
    }
    std::string missing = test::tracing_lacks();
    if (!missing.empty()) GTEST_SKIP() << missing;
    probes_ = KernelProbes::open();
    for (const char* name : {"ext4", "xfs", "btrfs", "overlay"}) {
      Disk* const disk = disk_of(name, missing);
      if (disk == nullptr) GTEST_SKIP() << "requires " << missing;
      origins_.push_back(disk->origin() / "dropped");
      test::write_durably(origins_.back(), content());
      paths_.push_back(disk->folder() / "dropped");
      files_.push_back(std::make_unique<ProbedFile>(*probes_, paths_.back()));
    }
  }
  void read_all_and_compare() {
    for (std::size_t i = 0; i < files_.size(); ++i) {
      test::bring_into_page_cache(paths_[i]);
      EXPECT_EQ(disagreement(*files_[i], RemovalCause::other), "") << "after reading " << paths_[i];
    }
  }
  void compare_after_drop() {
    for (std::size_t i = 0; i < files_.size(); ++i) {
      EXPECT_EQ(disagreement(*files_[i], RemovalCause::drop_caches, test::Removes::what_it_can), "")
          << "after dropping " << paths_[i];
    }
  }
  static void drop() { std::ofstream("/proc/sys/vm/drop_caches") << "1"; }

  std::unique_ptr<KernelProbes> probes_;
  std::vector<std::filesystem::path> paths_, origins_;
  std::vector<std::unique_ptr<ProbedFile>> files_;
};

TEST_F(ExactnessOfAll, DroppingAllCachesIsTheCause) {
  for (int round = 0; round < rounds() && !HasFailure(); ++round) {
    read_all_and_compare();
    drop();
    for (const auto& file : files_) EXPECT_EQ(file->mincore_pages(), 0u);
    compare_after_drop();
  }
}

// Pages of which somebody holds a reference, or whose range btrfs has locked for a reader, stay.
TEST_F(ExactnessOfAll, DroppingAllCachesIsTheCauseAlsoWhileTheFilesAreReadDirect) {
  std::vector<std::unique_ptr<test::DirectReader>> readers;
  for (const std::filesystem::path& origin : origins_)
    readers.push_back(std::make_unique<test::DirectReader>(origin));
  std::uint64_t taken = 0;
  for (int round = 0; round < rounds() && !HasFailure(); ++round) {
    for (const auto& reader : readers) reader->pause();
    read_all_and_compare();
    for (const auto& reader : readers) ASSERT_TRUE(reader->resume());
    drop();
    for (const auto& reader : readers) reader->pause();
    compare_after_drop();
    for (const auto& reader : readers) ASSERT_TRUE(reader->resume());
  }
  constexpr auto dropped = static_cast<std::size_t>(RemovalCause::drop_caches);
  for (const auto& file : files_) taken += file->sample().traffic->removed_bytes[dropped];
  EXPECT_GT(taken, 0u);
}

}  // namespace
}  // namespace penstock
