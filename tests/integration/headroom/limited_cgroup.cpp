// SPDX-License-Identifier: Apache-2.0
#include "tests/integration/headroom/limited_cgroup.hpp"

#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bpf/cgroup_text.hpp"
#include "bpf/text_file.hpp"
#include "dataplane/base/check.hpp"

namespace penstock::test {

namespace {

bool write_to(const std::string& path, const std::string& text) {
  const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  return fd && ::write(fd.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

bool passes_memory_on(const std::string& parent) {
  return read_text(AT_FDCWD, (parent + "/cgroup.subtree_control").c_str()).value_or("").find("memory") !=
         std::string::npos;
}

}  // namespace

std::unique_ptr<LimitedCgroup> LimitedCgroup::make(std::uint64_t limit_bytes, std::string& why) {
  const CgroupPaths paths = parse_cgroup_paths(read_text(AT_FDCWD, "/proc/self/cgroup").value_or(""));
  const CgroupMounts mounts = parse_cgroup_mounts(read_text(AT_FDCWD, "/proc/self/mountinfo").value_or(""));
  const bool v1 = paths.v1_memory.has_value();
  const std::vector<CgroupMount>& candidates = v1 ? mounts.v1_memory : mounts.v2;
  if ((!v1 && !paths.v2) || candidates.empty() || candidates[0].root != "/") {
    why = "requires the memory controller of cgroups, mounted from its root";
    return nullptr;
  }
  const std::string parent = candidates[0].where + (v1 ? *paths.v1_memory : *paths.v2);
  // Only a cgroup without processes, or the root, may pass a controller of v2 on.
  const bool turned_on =
      !v1 && !passes_memory_on(parent) && write_to(parent + "/cgroup.subtree_control", "+memory");
  if (!v1 && !passes_memory_on(parent)) {
    why = "requires a cgroup whose memory controller children may use";
    return nullptr;
  }
  std::string path = fmt::format("{}/penstock-test-{}", parent, ::getpid());
  if (::mkdir(path.c_str(), 0755) != 0) {
    why = fmt::format("requires the right to make {}: {}", path, std::strerror(errno));
    return nullptr;
  }
  std::unique_ptr<LimitedCgroup> cgroup(new LimitedCgroup(std::move(path), v1, turned_on ? parent : ""));
  if (!cgroup->write(v1 ? "memory.limit_in_bytes" : "memory.max", std::to_string(limit_bytes))) {
    why = "requires the right to limit a memory cgroup";
    return nullptr;
  }
  return cgroup;
}

LimitedCgroup::~LimitedCgroup() {
  ::rmdir(path_.c_str());
  if (!turned_on_in_.empty()) write_to(turned_on_in_ + "/cgroup.subtree_control", "-memory");
}

int LimitedCgroup::run(const std::function<int()>& body) const {
  const pid_t child = ::fork();
  CHECK(child >= 0);
  if (child == 0) ::_exit(enter() ? body() : 125);
  int status = 0;
  CHECK(::waitpid(child, &status, 0) == child);
  return status;
}

std::optional<std::uint64_t> LimitedCgroup::read_number(const std::string& file) const {
  const Result<std::string> text = read_text(AT_FDCWD, (path_ + "/" + file).c_str());
  if (!text) return std::nullopt;
  const Result<std::uint64_t> number = parse_bytes_used(*text);
  return number ? std::optional(*number) : std::nullopt;
}

std::uint64_t LimitedCgroup::id() const {
  struct stat status {};
  CHECK(::stat(path_.c_str(), &status) == 0);
  return status.st_ino;
}

std::uint64_t LimitedCgroup::kills() const {
  const std::string text =
      read_text(AT_FDCWD, (path_ + (v1_ ? "/memory.oom_control" : "/memory.events")).c_str()).value_or("");
  return stat_value(text, "oom_kill").value_or(0);
}

bool LimitedCgroup::write(const std::string& file, const std::string& text) const {
  return write_to(path_ + "/" + file, text);
}

}  // namespace penstock::test
