// SPDX-License-Identifier: Apache-2.0
#include "bpf/file_user.hpp"

#include <utility>

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>

namespace penstock {
namespace {

bool is_on_overlay(int fd) {
  struct statfs system {};
  return ::fstatfs(fd, &system) == 0 && system.f_type == OVERLAYFS_SUPER_MAGIC;
}

}  // namespace

std::optional<KnownStatus> known_status(int fd) {
  struct statx status {};
  constexpr unsigned wanted = STATX_TYPE | STATX_NLINK | STATX_SIZE | STATX_CTIME;
  if (::statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, wanted, &status) != 0) return std::nullopt;
  const auto changed_at =
      std::chrono::seconds(status.stx_ctime.tv_sec) + Nanoseconds(status.stx_ctime.tv_nsec);
  return KnownStatus{
      .mode = status.stx_mode, .links = status.stx_nlink, .bytes = status.stx_size, .changed_at = changed_at};
}

FileUser::FileUser(OwnedFd file, const KnownStatus& status, std::uint32_t slot)
    : file_(std::move(file)), slot_(slot), bytes_(status.bytes), changed_at_(status.changed_at) {}

bool FileUser::look() {
  const std::optional<KnownStatus> status = known_status(file_.fd);
  if (!status) return false;
  unlinked_ = status->links == 0;
  const bool changed = std::exchange(changed_at_, status->changed_at) != status->changed_at;
  if (!changed || copied_up_ || !is_on_overlay(file_.fd)) return false;
  copied_up_ = true;
  return true;
}

}  // namespace penstock
