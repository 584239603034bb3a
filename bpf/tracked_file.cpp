// SPDX-License-Identifier: Apache-2.0
#include "bpf/tracked_file.hpp"

#include <algorithm>
#include <atomic>

#include "dataplane/base/check.hpp"

namespace penstock {
namespace {

constexpr int steady_attempts = 3;

std::uint64_t page_bytes() {
  static const auto bytes = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}

// The programs write at any time.
std::uint64_t load(const pst_u64& counter) { return __atomic_load_n(&counter, __ATOMIC_ACQUIRE); }

pst_file load_all(const pst_file& file) {
  pst_file values{};
  values.added = load(file.added);
  for (std::size_t cause = 0; cause < PST_CAUSES; ++cause) values.removed[cause] = load(file.removed[cause]);
  values.refaulted = load(file.refaulted);
  values.major_faults = load(file.major_faults);
  values.major_fault_ns = load(file.major_fault_ns);
  return values;
}

struct ExtentCounters {
  std::uint64_t added = 0, removed = 0;
  std::uint64_t change() const { return added - removed; }
};

// Of one moment, or the last of several tries.
ExtentCounters load_extent(const pst_extent& extent) {
  ExtentCounters values{load(extent.added), load(extent.removed)};
  for (int attempt = 0; attempt < 8; ++attempt) {
    const std::uint64_t added = load(extent.added);
    if (added == values.added) break;
    values = {added, load(extent.removed)};
  }
  return values;
}

bool same_pages(const pst_file& a, const pst_file& b) {
  return a.added == b.added && std::equal(std::begin(a.removed), std::end(a.removed), std::begin(b.removed));
}

}  // namespace

static_assert(removal_causes == PST_CAUSES && reclaim_kinds == PST_RECLAIMS);
static_assert(sizeof(pst_file) == 128 && sizeof(pst_extent) == 24);

std::uint64_t FileCounters::removed() const {
  std::uint64_t sum = 0;
  for (const pst_u64 pages : values.removed) sum += pages;
  return sum;
}

FileCounters read_counters(const pst_file& file) {
  FileCounters read{load_all(file), false};
  for (int attempt = 0; attempt < 8; ++attempt) {
    const pst_file again = load_all(file);
    read.steady = same_pages(read.values, again);
    read.values = again;
    if (read.steady) break;
  }
  return read;
}

TrackedFile::TrackedFile(OwnedFd file, ResidencyQuery query, std::uint64_t bytes)
    : file_(std::move(file)), query_(query), bytes_(bytes) {
  // The same extents as with counters, so that an asker need not know the difference.
  run_ = ExtentTable::shape((bytes + page_bytes() - 1) / page_bytes());
}

void TrackedFile::count_at(const SharedCounters& shared, std::uint32_t slot, const ExtentRun& run,
                           const pst_resolved& seen, Mapping mapping) {
  shared_ = shared;
  slot_ = slot;
  run_ = run;
  seen_ = seen;
  mapping_ = std::move(mapping);
  shared_.files[slot_] = {};
  std::fill_n(shared_.extents + run.first, run.count, pst_extent{});
  first_extent_pages_.assign(run.count, std::nullopt);
}

void TrackedFile::begin(const KernelPages& kernel_pages) {
  CHECK(traced());
  for (int attempt = 0; attempt < steady_attempts; ++attempt) {
    const std::optional<std::uint64_t> pages = kernel_pages();
    const FileCounters before = read_counters(counters());
    first_pages_ = static_cast<std::int64_t>(pages.value_or(0)) - before.change();
    extents_settled_ = ask_extents() && pages && kernel_pages() == pages && is_still(before);
    if (extents_settled_) return;
  }
  forget_extents();
}

void TrackedFile::settle_extents(const KernelPages& kernel_pages) {
  CHECK(traced());
  if (extents_settled_) return;
  const std::optional<std::uint64_t> pages = kernel_pages();
  const FileCounters before = read_counters(counters());
  // Pages that are on their way in are in the kernel's number, and not counted yet.
  if (!pages || static_cast<std::int64_t>(*pages) != first_pages_ + before.change()) return;
  extents_settled_ = ask_extents() && kernel_pages() == pages && is_still(before);
  if (!extents_settled_) forget_extents();
}

// Whether no page has come or gone since.
bool TrackedFile::is_still(const FileCounters& before) const {
  const FileCounters after = read_counters(counters());
  return before.steady && after.steady && same_pages(before.values, after.values);
}

bool TrackedFile::ask_extents() {
  std::vector<std::uint64_t> changes(run_.count);
  for (std::size_t i = 0; i < run_.count; ++i) {
    changes[i] = load_extent(shared_.extents[run_.first + i]).change();
    const std::optional<std::uint64_t> resident = query_.resident_bytes(i * extent_bytes(), extent_bytes());
    first_extent_pages_[i].reset();
    if (resident) first_extent_pages_[i] = *resident / page_bytes() - changes[i];
  }
  // A page is counted for its file first, and for its extent then.
  for (std::size_t i = 0; i < run_.count; ++i) {
    if (load_extent(shared_.extents[run_.first + i]).change() != changes[i]) return false;
  }
  return true;
}

void TrackedFile::forget_extents() {
  extents_settled_ = false;
  first_extent_pages_.assign(run_.count, std::nullopt);
}

bool TrackedFile::reconcile(std::uint64_t kernel_pages) {
  CHECK(traced());
  const FileCounters now = read_counters(counters());
  if (!now.steady) return false;
  const std::int64_t difference = static_cast<std::int64_t>(kernel_pages) - (first_pages_ + now.change());
  const bool again = suspected_ == difference;
  suspected_.reset();
  if (difference == 0) return false;
  if (!again) {
    suspected_ = difference;
    return false;
  }
  first_pages_ += difference;
  forget_extents();  // What was not counted was in one of them.
  return true;
}

FileSample TrackedFile::sample(ProbeLevel level) const {
  FileSample sample;
  sample.level = level;
  if (!traced()) {
    sample.level = query_.level();
    sample.resident_bytes = query_.resident_bytes(0, extents() * extent_bytes());
    return sample;
  }
  const FileCounters now = read_counters(counters());
  const std::int64_t pages = first_pages_ + now.change();
  sample.resident_bytes = static_cast<std::uint64_t>(std::max<std::int64_t>(pages, 0)) * page_bytes();
  FileTraffic& traffic = sample.traffic.emplace();
  traffic.added_bytes = now.values.added * page_bytes();
  for (std::size_t cause = 0; cause < removal_causes; ++cause) {
    traffic.removed_bytes[cause] = now.values.removed[cause] * page_bytes();
  }
  traffic.refaulted_bytes = now.values.refaulted * page_bytes();
  if (level == ProbeLevel::traced_and_faults) {
    sample.faults = FaultTraffic{now.values.major_faults, now.values.major_fault_ns};
  }
  return sample;
}

std::uint64_t TrackedFile::extent_bytes() const { return page_bytes() << run_.shift; }

ExtentSample TrackedFile::extent(std::size_t index) const {
  if (!traced()) {
    return {.resident_bytes = query_.resident_bytes(index * extent_bytes(), extent_bytes())};
  }
  const pst_extent& shared = shared_.extents[run_.first + index];
  ExtentSample sample;
  sample.reclaimed_bytes = __atomic_load_n(&shared.reclaimed, __ATOMIC_ACQUIRE) * page_bytes();
  const ExtentCounters counters = load_extent(shared);
  sample.traffic = {.added_bytes = counters.added * page_bytes(),
                    .removed_bytes = counters.removed * page_bytes()};
  if (const std::optional<std::uint64_t> first = first_extent_pages_[index]; first) {
    const auto pages = static_cast<std::int64_t>(*first + counters.change());
    sample.resident_bytes = static_cast<std::uint64_t>(std::max<std::int64_t>(pages, 0)) * page_bytes();
  }
  return sample;
}

}  // namespace penstock
