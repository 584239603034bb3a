// SPDX-License-Identifier: Apache-2.0
#include "tests/support/in_child.hpp"

#include <fmt/format.h>
#include <grp.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>

#include "dataplane/base/check.hpp"
#include "dataplane/base/unique_fd.hpp"

namespace penstock::test {

std::string in_child(const std::function<std::string()>& body) {
  int ends[2];
  CHECK(::pipe(ends) == 0);
  UniqueFd reading(ends[0]);
  UniqueFd writing(ends[1]);
  const pid_t child = ::fork();
  CHECK(child >= 0);
  if (child == 0) {
    const std::string text = body();
    CHECK(::write(writing.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()));
    ::_exit(0);  // Without the parent's atexit functions.
  }
  writing.reset();
  std::string text;
  std::array<char, 4096> part;
  for (ssize_t count; (count = ::read(reading.get(), part.data(), part.size())) > 0;) {
    text.append(part.data(), static_cast<std::size_t>(count));
  }
  int status = 0;
  CHECK(::waitpid(child, &status, 0) == child);
  return status == 0 ? text : fmt::format("child died with status {}", status);
}

void deny_system_calls(std::uint32_t first, std::uint32_t last, int error) {
  std::array<sock_filter, 5> filter = {
      sock_filter BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      sock_filter BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, first, 0, 2),
      sock_filter BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, last, 1, 0),
      sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<std::uint32_t>(error)),
      sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{.len = static_cast<unsigned short>(filter.size()), .filter = filter.data()};
  CHECK(::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
  CHECK(::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

void drop_rights(std::uint64_t locked_memory_bytes) {
  const rlimit limit{.rlim_cur = locked_memory_bytes, .rlim_max = locked_memory_bytes};
  CHECK(::setrlimit(RLIMIT_MEMLOCK, &limit) == 0);
  CHECK(::setgroups(0, nullptr) == 0);
  CHECK(::setresgid(65534, 65534, 65534) == 0);
  CHECK(::setresuid(65534, 65534, 65534) == 0);  // Takes the capabilities along.
}

}  // namespace penstock::test
