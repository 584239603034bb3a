// SPDX-License-Identifier: Apache-2.0
#include "service/hung_files.hpp"

#include <array>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <string_view>

#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace penstock {
namespace {

constexpr std::string_view descriptors = "/proc/self/fd/";

// Whether it is a file with a path: only such a one can hang, and only looking at the link can't.
bool has_path(int fd) {
  std::array<char, 32> link{};
  descriptors.copy(link.data(), descriptors.size());
  std::to_chars(link.data() + descriptors.size(), link.data() + link.size() - 1, fd);
  std::array<char, 7> target{};
  const ssize_t length = ::readlink(link.data(), target.data(), target.size());
  const std::string_view start(target.data(), static_cast<std::size_t>(length > 0 ? length : 0));
  return start.starts_with('/') && start != "/memfd:";
}

// In the child, where only this thread exists and any lock may be held: system calls alone.
[[noreturn]] void close_after(pid_t parent) {
  ::prctl(PR_SET_NAME, "penstock-closer");
  const timespec pause{.tv_sec = 0, .tv_nsec = 1'000'000};
  while (::getppid() == parent) ::nanosleep(&pause, nullptr);
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  // Frames and sockets first: they must not wait for the files.
  for (int fd = 0; fd < static_cast<int>(limit.rlim_cur); ++fd) {
    if (!has_path(fd)) ::close(fd);
  }
  ::_exit(0);
}

}  // namespace

void exit_past_hung_files(int code) {
  const pid_t parent = ::getpid();
  // Not fork(): its handlers take locks that a stuck thread may hold.
  if (::syscall(SYS_clone, CLONE_FILES | SIGCHLD, nullptr, nullptr, nullptr, nullptr) == 0)
    close_after(parent);
  std::_Exit(code);
}

}  // namespace penstock
