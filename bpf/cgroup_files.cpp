// SPDX-License-Identifier: Apache-2.0
#include "bpf/cgroup_files.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bpf/cgroup_text.hpp"

namespace penstock {
namespace {

// Where the hierarchies are by convention, for when mountinfo does not say.
constexpr const char* usual_v1_memory = "/sys/fs/cgroup/memory";
constexpr const char* usual_v2 = "/sys/fs/cgroup";
constexpr const char* usual_v2_of_hybrid = "/sys/fs/cgroup/unified";

UniqueFd open_directory(int at, const std::string& path) {
  return UniqueFd(::openat(at, path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

// Paths of the system, looked up below the root descriptor.
std::string below_root(std::string_view absolute) {
  const std::size_t first = absolute.find_first_not_of('/');
  return first == std::string_view::npos ? "." : std::string(absolute.substr(first));
}

// The part of a cgroup's path below the mounted one; nothing when it is not below it.
std::optional<std::string_view> below_mount(std::string_view path, std::string_view mounted) {
  if (mounted == "/") return path;
  if (!path.starts_with(mounted)) return std::nullopt;
  path.remove_prefix(mounted.size());
  if (!path.empty() && path.front() != '/') return std::nullopt;
  return path;
}

// The mount that shows the cgroup at `path`, the closest one if several do; else the first.
const CgroupMount* best_mount(const std::vector<CgroupMount>& mounts, std::string_view path) {
  const CgroupMount* best = mounts.empty() ? nullptr : &mounts.front();
  for (const CgroupMount& mount : mounts) {
    if (!below_mount(path, mount.root)) continue;
    if (!below_mount(path, best->root) || mount.root.size() > best->root.size()) best = &mount;
  }
  return best;
}

std::string why(const Error& error) { return error.native != 0 ? std::strerror(error.native) : "no number"; }

std::optional<std::uint64_t> tightest(std::optional<std::uint64_t> a, std::optional<std::uint64_t> b) {
  if (!a || !b) return a ? a : b;
  return std::min(*a, *b);
}

}  // namespace

CgroupFiles CgroupFiles::open(int root, Warnings& warnings, CgroupHierarchy hierarchy) {
  CgroupFiles files;
  Result<std::string> membership = read_text(root, "proc/self/cgroup");
  if (!membership) {
    warnings.add(fmt::format("/proc/self/cgroup: {}; memory is taken as not limited by a cgroup",
                             why(membership.error())));
    return files;
  }
  files.choose(root, *std::move(membership), hierarchy, warnings);
  return files;
}

Result<CgroupFiles> CgroupFiles::open(int root, const ProcessRef& process, Warnings& warnings,
                                      CgroupHierarchy hierarchy) {
  std::string membership = TRY(read_text(root, fmt::format("proc/{}/cgroup", process.pid).c_str()));
  CgroupFiles files;
  files.own_ = false;
  Warnings while_it_lives;
  files.choose(root, std::move(membership), hierarchy, while_it_lives);
  // Had it ended before the reading, the number might be another's by now; before the opening, its cgroup may be gone.
  pollfd ended{.fd = process.pidfd, .events = POLLIN, .revents = 0};
  if (::poll(&ended, 1, 0) != 0) return Error{Errc::not_found, ESRCH, "read a process's cgroup"};
  for (std::string& text : while_it_lives.take()) warnings.add(std::move(text));
  return files;
}

void CgroupFiles::choose(int root, std::string membership, CgroupHierarchy hierarchy, Warnings& warnings) {
  membership_ = std::move(membership);
  const CgroupPaths paths = parse_cgroup_paths(membership_);
  // A controller lives in one hierarchy at a time, and a v1 line says that it is there.
  hybrid_ = paths.v1_memory && paths.v2;
  if (paths.v1_memory && hierarchy == CgroupHierarchy::memory) {
    version_ = CgroupVersion::v1;
    path_ = *paths.v1_memory;
  } else if (paths.v2) {
    version_ = CgroupVersion::v2;
    path_ = *paths.v2;
  } else {
    return;
  }
  open_levels(root, warnings);
}

std::uint64_t CgroupFiles::id() const {
  struct stat status {};
  return directory() >= 0 && ::fstat(directory(), &status) == 0 ? status.st_ino : 0;
}

// A namespace's root is called "/" as well, but of all cgroups the hierarchy's root alone has no such file, and of v1's
// it alone has the other one.
bool CgroupFiles::is_machine() const {
  if (levels_.size() != 1) return false;
  const auto has = [this](const char* name) { return ::faccessat(directory(), name, F_OK, 0) == 0; };
  return version_ == CgroupVersion::v2 ? !has("cgroup.events") : has("release_agent");
}

void CgroupFiles::open_levels(int root, Warnings& warnings) {
  const CgroupMounts mounts = parse_cgroup_mounts(read_text(root, "proc/self/mountinfo").value_or(""));
  const bool v1 = version_ == CgroupVersion::v1;
  const CgroupMount* const mount = best_mount(v1 ? mounts.v1_memory : mounts.v2, path_);
  const bool mounted = mount != nullptr ? open_mount(root, mount->where)
                       : v1             ? open_mount(root, usual_v1_memory)
                                        : open_mount(root, usual_v2_of_hybrid) || open_mount(root, usual_v2);
  if (!mounted && !own_) return close_others("its hierarchy is mounted nowhere", warnings);
  if (!mounted) {
    warnings.add(fmt::format("cgroup {} is mounted nowhere; memory is taken as not limited by it", path_));
    return;
  }
  const std::optional<std::string_view> relative = below_mount(path_, mount != nullptr ? mount->root : "/");
  if (relative && descend(*relative)) return;
  if (!own_) {
    const bool outside = path_ == "/.." || path_.starts_with("/../");
    return close_others(outside ? "it is outside the service's cgroup namespace"
                                : fmt::format("it is not below {}", levels_.front().path),
                        warnings);
  }
  levels_.erase(levels_.begin() + 1, levels_.end());
  warnings.add(fmt::format("cgroup {} is not visible below {}; the limits of the latter are used", path_,
                           levels_.front().path));
}

// The text has no name that other users chose, and is the same for all processes with that cause: it is said once.
void CgroupFiles::close_others(std::string_view why, Warnings& warnings) {
  levels_.clear();
  warnings.add(
      fmt::format("the cgroup of a client can't be seen: {}; figures of such cgroups are not known", why));
}

bool CgroupFiles::open_mount(int root, const std::string& where) {
  UniqueFd directory = open_directory(root, below_root(where));
  if (!directory) return false;
  add_level(std::move(directory), where);
  return true;
}

// Down from the mount, one name at a time: what is above the mount is not ours to read, whatever the path says.
bool CgroupFiles::descend(std::string_view relative) {
  while (!relative.empty()) {
    const std::size_t end = std::min(relative.find('/'), relative.size());
    const std::string name(relative.substr(0, end));
    relative.remove_prefix(std::min(end + 1, relative.size()));
    if (name.empty()) continue;
    if (name == "..") return false;
    UniqueFd directory(::openat(levels_.back().directory.get(), name.c_str(),
                                O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!directory) return false;
    add_level(std::move(directory), levels_.back().path + "/" + name);
  }
  return true;
}

void CgroupFiles::add_level(UniqueFd directory, std::string path) {
  const bool v1 = version_ == CgroupVersion::v1;
  levels_.push_back(Level{.directory = std::move(directory),
                          .path = std::move(path),
                          .max = TextFile(v1 ? "memory.limit_in_bytes" : "memory.max"),
                          .high = TextFile("memory.high"),
                          .usage = TextFile(v1 ? "memory.usage_in_bytes" : "memory.current"),
                          .stat = TextFile("memory.stat"),
                          .hits = TextFile(v1 ? "memory.failcnt" : "memory.events.local"),
                          .hits_below = TextFile("memory.events")});
}

CgroupMemory CgroupFiles::read(Warnings& warnings) {
  CgroupMemory memory;
  tightest_.reset();
  max_at_.reset();
  high_at_.reset();
  for (std::size_t i = 0; i < levels_.size(); ++i) {
    Level& level = levels_[i];
    const std::optional<std::uint64_t> max = read_limit(level, level.max, warnings);
    const std::optional<std::uint64_t> high =
        version_ == CgroupVersion::v2 ? read_limit(level, level.high, warnings) : std::nullopt;
    // Of equals the inner one: it is met first.
    if (max && *max <= memory.max.value_or(UINT64_MAX)) max_at_ = i;
    if (high && *high <= memory.high.value_or(UINT64_MAX)) high_at_ = i;
    memory.max = tightest(memory.max, max);
    memory.high = tightest(memory.high, high);
    const std::optional<std::uint64_t> limit = tightest(max, high);
    if (!limit) continue;
    const std::optional<std::uint64_t> used = read_used(level, warnings);
    if (!used) continue;
    const std::uint64_t room = *limit - std::min(*used, *limit);
    // Of equals the inner one: what presses there presses on this process.
    if (!memory.headroom || room <= *memory.headroom) tightest_ = i;
    memory.headroom = tightest(memory.headroom, room);
  }
  return memory;
}

CgroupHits CgroupFiles::read_hits() {
  if (levels_.empty()) return {};
  const std::size_t own = levels_.size() - 1;
  if (version_ == CgroupVersion::v1)
    return {.max = read_hits_of(levels_[max_at_.value_or(own)], {}), .high = std::nullopt};
  return {.max = read_hits_of(levels_[max_at_.value_or(own)], "max"),
          .high = read_hits_of(levels_[high_at_.value_or(own)], "high")};
}

// Not those of descendants, which meet limits of their own, unless the kernel knows no others (before 5.2).
std::optional<std::uint64_t> CgroupFiles::read_hits_of(Level& level, std::string_view kind) const {
  Result<std::string_view> text = level.hits.read(level.directory.get());
  if (version_ == CgroupVersion::v1) {
    const Result<std::uint64_t> number = text ? parse_bytes_used(*text) : text.error();
    return number ? std::optional(*number) : std::nullopt;
  }
  if (!text) text = level.hits_below.read(level.directory.get());
  return text ? stat_value(*text, kind) : std::nullopt;
}

std::optional<std::uint64_t> CgroupFiles::read_limit(Level& level, TextFile& file, Warnings& warnings) const {
  const Result<std::string_view> text = file.read(level.directory.get());
  // The root cgroup of v2 has no limit files, nor has one whose parent does not pass the controller on.
  if (!text && text.error().code == Errc::not_found) return std::nullopt;
  const Result<std::optional<std::uint64_t>> limit = text ? parse_limit(*text) : text.error();
  if (limit) return *limit;
  warnings.add(fmt::format("{}/{}: {}; taken as no limit", level.path, file.name(), why(limit.error())));
  return std::nullopt;
}

// What reclaim can't take back: usage without the file cache. Shared memory is on the anonymous lists, so that the
// file lists hold only what the disk has too.
std::optional<std::uint64_t> CgroupFiles::read_used(Level& level, Warnings& warnings) const {
  const Result<std::string_view> text = level.usage.read(level.directory.get());
  const Result<std::uint64_t> usage = text ? parse_bytes_used(*text) : text.error();
  if (!usage) {
    warnings.add(fmt::format("{}/{}: {}; its limit is not watched", level.path, level.usage.name(),
                             why(usage.error())));
    return std::nullopt;
  }
  const Result<std::string_view> stat = level.stat.read(level.directory.get());
  if (!stat) {
    warnings.add(fmt::format("{}/{}: {}; file cache counts as used", level.path, level.stat.name(),
                             why(stat.error())));
    return *usage;
  }
  // The plain lines of v1 leave the descendants out; those with total_ don't.
  const auto with_descendants = [&](std::string_view total_key, std::string_view key) {
    const std::optional<std::uint64_t> total =
        version_ == CgroupVersion::v1 ? stat_value(*stat, total_key) : std::nullopt;
    return total ? *total : stat_value(*stat, key).value_or(0);
  };
  const std::uint64_t file_cache = with_descendants("total_inactive_file", "inactive_file") +
                                   with_descendants("total_active_file", "active_file");
  return *usage - std::min(file_cache, *usage);
}

}  // namespace penstock
