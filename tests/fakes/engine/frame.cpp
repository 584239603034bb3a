// SPDX-License-Identifier: Apache-2.0
#include "tests/fakes/engine/frame.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>

#include "tests/fakes/engine/die.hpp"
#include "tests/fakes/engine/settings.hpp"

namespace penstock::fake {
namespace {

// Fresh memory of a GPU holds what its last user left. A page in each 2 MiB is enough to notice, and keeps large fakes
// sparse.
constexpr std::uint64_t poison_stride = std::uint64_t{2} << 20;
constexpr std::uint64_t poison_bytes = 4096;

void poison(int fd, std::uint64_t bytes) {
  std::array<unsigned char, poison_bytes> rubbish;
  rubbish.fill(0xa5);
  for (std::uint64_t offset = 0; offset < bytes; offset += poison_stride) {
    const std::uint64_t size = std::min(poison_bytes, bytes - offset);
    if (::pwrite(fd, rubbish.data(), size, static_cast<off_t>(offset)) != static_cast<ssize_t>(size)) {
      die("no host memory for a frame: %s", std::strerror(errno));
    }
  }
}

bool lock_for_life(int fd) {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  return ::fcntl(fd, F_OFD_SETLK, &lock) == 0;
}

}  // namespace

UniqueFd make_frame(FrameInfo& info) {
  char name[64];
  std::snprintf(name, sizeof name, "fake-%s device %d types %d", front_end.name, info.device,
                info.handle_types);
  UniqueFd fd(::memfd_create(name, MFD_CLOEXEC));
  if (!fd) return fd;
  struct stat status {};
  if (::ftruncate(fd.get(), static_cast<off_t>(info.bytes)) != 0 || ::fstat(fd.get(), &status) != 0 ||
      !lock_for_life(fd.get())) {
    die("a frame of %llu bytes: %s", static_cast<unsigned long long>(info.bytes), std::strerror(errno));
  }
  info.inode = status.st_ino;
  if (settings().poison) poison(fd.get(), info.bytes);
  return fd;
}

std::optional<FrameInfo> frame_of(int fd) {
  char path[64];
  char target[256];
  std::snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  const ssize_t length = ::readlink(path, target, sizeof target - 1);
  if (length <= 0) return std::nullopt;
  target[length] = 0;
  char format[96];
  std::snprintf(format, sizeof format, "/memfd:fake-%s device %%d types %%d", front_end.name);
  FrameInfo info;
  if (std::sscanf(target, format, &info.device, &info.handle_types) != 2) return std::nullopt;
  struct stat status {};
  if (::fstat(fd, &status) != 0) return std::nullopt;
  info.inode = status.st_ino;
  info.bytes = static_cast<std::uint64_t>(status.st_size);
  return info;
}

std::set<std::uint64_t> living_frames() {
  std::set<std::uint64_t> living;
  std::FILE* file = std::fopen("/proc/locks", "re");
  if (file == nullptr) die("/proc/locks: %s", std::strerror(errno));
  char line[256];
  while (std::fgets(line, sizeof line, file) != nullptr) {
    unsigned long long inode = 0;
    if (std::sscanf(line, "%*s OFDLCK %*s %*s %*s %*x:%*x:%llu", &inode) == 1) living.insert(inode);
  }
  std::fclose(file);
  return living;
}

}  // namespace penstock::fake
