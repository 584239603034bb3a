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

std::unique_ptr<LimitedCgroup> LimitedCgroup::make(std::uint64_t limit_bytes, std::string& why) {
  const CgroupPaths paths = parse_cgroup_paths(read_text(AT_FDCWD, "/proc/self/cgroup").value_or(""));
  const CgroupMounts mounts = parse_cgroup_mounts(read_text(AT_FDCWD, "/proc/self/mountinfo").value_or(""));
  if (!paths.v1_memory || mounts.v1_memory.empty() || mounts.v1_memory[0].root != "/") {
    why = "requires the memory controller of cgroup v1, mounted from its root";
    return nullptr;
  }
  std::string path =
      fmt::format("{}{}/penstock-test-{}", mounts.v1_memory[0].where, *paths.v1_memory, ::getpid());
  if (::mkdir(path.c_str(), 0755) != 0) {
    why = fmt::format("requires the right to make {}: {}", path, std::strerror(errno));
    return nullptr;
  }
  std::unique_ptr<LimitedCgroup> cgroup(new LimitedCgroup(std::move(path)));
  if (!cgroup->write("memory.limit_in_bytes", std::to_string(limit_bytes))) {
    why = "requires the right to limit a memory cgroup";
    return nullptr;
  }
  return cgroup;
}

LimitedCgroup::~LimitedCgroup() { ::rmdir(path_.c_str()); }

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
  const std::string text = read_text(AT_FDCWD, (path_ + "/memory.oom_control").c_str()).value_or("");
  return stat_value(text, "oom_kill").value_or(0);
}

bool LimitedCgroup::write(const std::string& file, const std::string& text) const {
  const UniqueFd fd(::open((path_ + "/" + file).c_str(), O_WRONLY | O_CLOEXEC));
  return fd && ::write(fd.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

}  // namespace penstock::test
