// SPDX-License-Identifier: Apache-2.0
#include "bpf/cgroup_headroom.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "bpf/cgroup_text.hpp"

namespace penstock {
namespace {

// What meminfo says when it says nothing.
std::uint64_t physical_bytes() {
  const long pages = ::sysconf(_SC_PHYS_PAGES);
  const long page_bytes = ::sysconf(_SC_PAGESIZE);
  return pages > 0 && page_bytes > 0
             ? static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page_bytes)
             : 0;
}

}  // namespace

Outcome<std::unique_ptr<CgroupHeadroom>> CgroupHeadroom::open(const std::string& root, Clock clock) {
  UniqueFd directory(::open(root.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory) {
    return fail(FailureKind::io_error, fmt::format("{} can't be opened: {}", root, std::strerror(errno)));
  }
  return std::unique_ptr<CgroupHeadroom>(new CgroupHeadroom(std::move(directory), std::move(clock)));
}

CgroupHeadroom::CgroupHeadroom(UniqueFd root, Clock clock)
    : root_(std::move(root)),
      clock_(std::move(clock)),
      files_(CgroupFiles::open(root_.get(), warnings_)),
      meminfo_("proc/meminfo"),
      membership_("proc/self/cgroup"),
      membership_at_(clock_()) {
  // Opened now: later there may be no descriptor left, and no memory.
  static_cast<void>(membership_.read(root_.get()));
  read_at_ = membership_at_ - reading_age_max;
  refresh();
}

std::uint64_t CgroupHeadroom::headroom_bytes() {
  const std::lock_guard lock(mutex_);
  refresh();
  const std::uint64_t free =
      std::min(reading_.available_bytes, reading_.cgroup.headroom.value_or(reading_.available_bytes));
  if (taken_since_ <= 0) return free + static_cast<std::uint64_t>(-taken_since_);
  return free - std::min(free, static_cast<std::uint64_t>(taken_since_));
}

std::uint64_t CgroupHeadroom::limit_bytes() {
  const std::lock_guard lock(mutex_);
  refresh();
  const CgroupMemory& cgroup = reading_.cgroup;
  return std::min({reading_.machine_bytes, cgroup.max.value_or(reading_.machine_bytes),
                   cgroup.high.value_or(reading_.machine_bytes)});
}

std::uint64_t CgroupHeadroom::limit_source() {
  const std::lock_guard lock(mutex_);
  refresh();
  const std::optional<std::uint64_t>& cgroup = reading_.cgroup.headroom;
  if (!cgroup || *cgroup > reading_.available_bytes) return 0;
  return moves_ << 32 | (files_.tightest_level().value_or(0) + 1);
}

void CgroupHeadroom::account(std::int64_t bytes) {
  const std::lock_guard lock(mutex_);
  taken_since_ += bytes;
}

void CgroupHeadroom::read_anew() {
  const std::lock_guard lock(mutex_);
  outdated_ = true;
}

HeadroomReport CgroupHeadroom::report() {
  const std::lock_guard lock(mutex_);
  refresh();
  return reading_;
}

std::vector<std::string> CgroupHeadroom::warnings() {
  const std::lock_guard lock(mutex_);
  return warnings_.take();
}

void CgroupHeadroom::refresh() {
  const Nanoseconds now = clock_();
  bool moved = false;
  if (now - membership_at_ >= (suspected_.empty() ? membership_age_max : reading_age_max)) {
    membership_at_ = now;
    // A launcher may put the process into its cgroup after it has started. While it does, a look may find it on the way:
    // two in a row must say the same.
    const Result<std::string_view> membership = membership_.read(root_.get());
    const std::string_view other =
        membership && *membership != files_.membership() ? *membership : std::string_view();
    moved = !other.empty() && other == suspected_;
    suspected_ = moved ? std::string_view() : other;
    if (moved) files_ = CgroupFiles::open(root_.get(), warnings_);
    moves_ += moved;
  }
  if (!moved && !outdated_ && now - read_at_ < reading_age_max) return;
  outdated_ = false;
  read_at_ = now;
  taken_since_ = 0;
  // One by one: the governor reads under pressure, and a new path would be an allocation.
  reading_.version = files_.version();
  reading_.hybrid = files_.hybrid();
  reading_.path = files_.path();
  reading_.cgroup = files_.read(warnings_);
  read_machine();
}

void CgroupHeadroom::read_machine() {
  const std::string_view text = meminfo_.read(root_.get()).value_or(std::string_view());
  const std::optional<std::uint64_t> total = meminfo_bytes(text, "MemTotal");
  const std::optional<std::uint64_t> available = meminfo_bytes(text, "MemAvailable");
  if (!total || !available)
    warnings_.add("/proc/meminfo lacks MemTotal or MemAvailable; all memory counts as available");
  reading_.machine_bytes = total.value_or(physical_bytes());
  reading_.available_bytes = available.value_or(reading_.machine_bytes);
}

}  // namespace penstock
