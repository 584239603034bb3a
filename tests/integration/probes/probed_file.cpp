// SPDX-License-Identifier: Apache-2.0
#include "tests/integration/probes/probed_file.hpp"

#include <algorithm>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/vfs.h>

#include "dataplane/base/check.hpp"
#include "dataplane/base/units.hpp"
#include "tests/support/eventually.hpp"

namespace penstock::test {
namespace {

// Sparse. So large that ext4 gets blocks of a page: of a page that is only partly up to date mincore says nothing.
constexpr std::uint64_t image_bytes = 768 * mib;

bool enter_own_mount_namespace() {
  static const bool entered =
      ::unshare(CLONE_NEWNS) == 0 && ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
  return entered;
}

}  // namespace

std::unique_ptr<Disk> Disk::make(const std::string& name, std::string& missing) {
  if (!enter_own_mount_namespace()) {
    missing = "the right to make a mount namespace";
    return nullptr;
  }
  std::unique_ptr<Disk> disk(new Disk());
  const std::filesystem::path scratch = disk->scratch_.path();
  if (name == "tmpfs") {
    disk->folder_ = disk->origin_ = scratch / "tmpfs";
    std::filesystem::create_directory(disk->folder_);
    if (::mount("tmpfs", disk->folder_.c_str(), "tmpfs", 0, "size=128m") != 0) {
      missing = "the right to mount tmpfs";
      return nullptr;
    }
    disk->mounted_ = disk->folder_;
    return disk;
  }
  disk->image_ = LoopImage::make(scratch, name == "overlay" ? "ext4" : name, image_bytes, missing);
  if (!disk->image_) return nullptr;
  disk->folder_ = disk->origin_ = disk->image_->root();
  if (name == "btrfs") {
    disk->folder_ = disk->origin_ = disk->image_->root() / "subvolume";
    if (!run_command("btrfs subvolume create " + disk->folder_.string())) {
      missing = "btrfs of btrfs-progs";
      return nullptr;
    }
  }
  if (name == "overlay") {
    for (const char* part : {"lower", "upper", "work"})
      std::filesystem::create_directory(disk->image_->root() / part);
    disk->folder_ = scratch / "merged";
    disk->origin_ = disk->image_->root() / "lower";
    std::filesystem::create_directory(disk->folder_);
    if (!mount_overlay(disk->origin_, disk->image_->root() / "upper", disk->image_->root() / "work",
                       disk->folder_)) {
      missing = "the right to mount overlayfs";
      return nullptr;
    }
    disk->mounted_ = disk->folder_;
  }
  return disk;
}

Disk::~Disk() {
  if (!mounted_.empty()) unmount(mounted_);
}

DiskFolder::DiskFolder() : path_(temporary_.path()) {
  struct statfs system {};
  CHECK(::statfs(path_.c_str(), &system) == 0);
  if (system.f_type != TMPFS_MAGIC) return;
  disk_ = Disk::make("ext4", missing_);
  if (disk_) path_ = disk_->folder();
}

void DiskFolder::open_to_others() const {
  std::filesystem::permissions(path_, std::filesystem::perms(0755));
  if (disk_) std::filesystem::permissions(disk_->scratch(), std::filesystem::perms(0755));
}

bool read_in_pieces(const std::filesystem::path& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  static char piece[256 * kib];
  ssize_t got = fd ? 1 : -1;
  while (got > 0) got = ::read(fd.get(), piece, sizeof piece);
  return got == 0;
}

std::string tracing_lacks() {
  // Loading takes longer than most tests.
  static const std::string lacks = [] {
    const auto probes = KernelProbes::open();
    return probes->level() >= ProbeLevel::traced
               ? std::string()
               : "requires the page cache probe: " + probes->report().front().why;
  }();
  return lacks;
}

ProbedFile::ProbedFile(KernelProbes& probes, const std::filesystem::path& path)
    : probes_(probes),
      path_(path),
      fd_(std::make_shared<UniqueFd>(::open(path.c_str(), O_RDONLY | O_CLOEXEC))) {
  CHECK(*fd_);
  Result<Tracking> tracking = probes.track(fd_->get(), fd_);
  CHECK(tracking);
  tracking_ = *std::move(tracking);
  const FileCounts first = counts();
  foreign_ = first.others;
  last_ = first.sample.traffic.value_or(FileTraffic{});
  last_pages_ = first.mincore_pages;
}

ProbedFile::~ProbedFile() { probes_.untrack(tracking_.file); }

std::uint64_t ProbedFile::mincore_pages() const {
  // Up to the end of the last large folio, which may reach beyond the file's.
  const std::uint64_t bytes = divide_up(std::filesystem::file_size(path_), 2 * mib) * 2 * mib;
  std::vector<unsigned char> present(bytes / probed_page_bytes);
  if (bytes == 0) return 0;
  void* const memory = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd_->get(), 0);
  CHECK(memory != MAP_FAILED);
  CHECK(::mincore(memory, bytes, present.data()) == 0);
  ::munmap(memory, bytes);
  return static_cast<std::uint64_t>(
      std::ranges::count_if(present, [](unsigned char c) { return (c & 1) != 0; }));
}

FileCounts ProbedFile::counts() {
  FileCounts counts;
  (void)eventually([&] {
    counts.others = ForeignReclaim::read();
    counts.sample = sample();
    counts.extents.resize(probes_.extents(id()));
    probes_.sample_extents(id(), counts.extents);
    counts.mincore_pages = mincore_pages();
    const FileTraffic before = counts.sample.traffic.value_or(FileTraffic{});
    const FileSample again = sample();
    const FileTraffic after = again.traffic.value_or(FileTraffic{});
    // Of one that is not traced, what is there is all that is known.
    return before.added_bytes == after.added_bytes &&
           before.removed_bytes_in_all() == after.removed_bytes_in_all() &&
           counts.sample.resident_bytes == again.resident_bytes;
  });
  return counts;
}

Step ProbedFile::step(const FileCounts& counts, RemovalCause expected) {
  const ForeignReclaim foreign_before = foreign_;
  foreign_ = counts.others;
  const FileTraffic now = counts.sample.traffic.value_or(FileTraffic{});
  const std::uint64_t pages = counts.mincore_pages;
  const auto since = [](std::uint64_t current, std::uint64_t before) {
    return static_cast<std::int64_t>((current - before) / probed_page_bytes);
  };
  Step step;
  step.resident_change = static_cast<std::int64_t>(pages - last_pages_);
  step.added = since(now.added_bytes, last_.added_bytes);
  step.removed = since(now.removed_bytes_in_all(), last_.removed_bytes_in_all());
  PagesByCause removed{};
  for (std::size_t cause = 0; cause < removal_causes; ++cause) {
    removed[cause] = since(now.removed_bytes[cause], last_.removed_bytes[cause]);
    const auto which = static_cast<RemovalCause>(cause);
    if (which == expected) {
      step.by_cause = removed[cause];
    } else if (which == RemovalCause::kswapd || which == RemovalCause::other_reclaim ||
               which == RemovalCause::direct_reclaim || which == RemovalCause::drop_caches) {
      step.foreign += removed[cause];
    }
  }
  step.unexplained = more_than_others_took(removed, expected, foreign_before);
  step.dropped = ForeignReclaim::read().drops > foreign_before.drops;
  last_ = now;
  last_pages_ = pages;
  return step;
}

std::string disagreement(ProbedFile& file, RemovalCause expected, Removes removes) {
  const FileCounts counts = file.counts();
  std::uint64_t in_extents = 0;
  ExtentTraffic of_extents;
  for (const ExtentSample& extent : counts.extents) {
    in_extents += extent.resident_bytes.value_or(0);
    of_extents.added_bytes += extent.traffic.value_or(ExtentTraffic{}).added_bytes;
    of_extents.removed_bytes += extent.traffic.value_or(ExtentTraffic{}).removed_bytes;
  }
  const std::uint64_t resident = counts.sample.resident_bytes.value_or(UINT64_MAX);
  const FileTraffic traffic = counts.sample.traffic.value_or(FileTraffic{});
  const Step step = file.step(counts, expected);
  const std::uint64_t truth = counts.mincore_bytes();
  if (resident != truth || in_extents != truth) {
    return fmt::format("resident {} by the probe, {} over its extents, {} by mincore", resident, in_extents,
                       truth);
  }
  if (of_extents.added_bytes != traffic.added_bytes ||
      of_extents.removed_bytes != traffic.removed_bytes_in_all()) {
    return fmt::format("added {} and removed {}, over the extents {} and {}", traffic.added_bytes,
                       traffic.removed_bytes_in_all(), of_extents.added_bytes, of_extents.removed_bytes);
  }
  if (step.added - step.removed != step.resident_change || step.by_cause + step.foreign != step.removed) {
    return fmt::format("added {} removed {} ({} by {}, {} by others), by mincore {}", step.added,
                       step.removed, step.by_cause, removal_cause_name(expected), step.foreign,
                       step.resident_change);
  }
  if (!step.unexplained.empty()) return step.unexplained;
  if (removes == Removes::something && expected != RemovalCause::other && step.by_cause == 0 &&
      !step.dropped) {
    return fmt::format("nothing removed by {}, {} by others", removal_cause_name(expected), step.foreign);
  }
  return {};
}

}  // namespace penstock::test
