// SPDX-License-Identifier: Apache-2.0
#include "service/control/file_disposal.hpp"

#include <mutex>
#include <string>
#include <utility>

#include <linux/magic.h>
#include <sys/vfs.h>

#include <boost/asio/post.hpp>

#include "service/control/descriptor_path.hpp"

namespace penstock {
namespace {

// Those that the headers of older kernels don't name.
constexpr std::uint32_t fuse_magic = 0x65735546, cifs_magic = 0xff534d42, smb2_magic = 0xfe534d42,
                        ceph_magic = 0x00c36400, lustre_magic = 0x0bd00bd0, gpfs_magic = 0x47504653;

// Its files are somebody else's, who may be gone.
bool may_hang(int fd) {
  struct statfs system {};
  if (::fstatfs(fd, &system) != 0) return true;
  switch (static_cast<std::uint32_t>(system.f_type)) {
    case fuse_magic:
    case NFS_SUPER_MAGIC:
    case SMB_SUPER_MAGIC:
    case cifs_magic:
    case smb2_magic:
    case ceph_magic:
    case lustre_magic:
    case gpfs_magic:
    case AFS_SUPER_MAGIC:
    case V9FS_MAGIC: return true;
    default: return false;
  }
}

}  // namespace

struct FileDisposal::Held {
  Held(std::shared_ptr<CheckpointFile> of, std::string at) : path(std::move(at)), file(std::move(of)) {}

  std::shared_ptr<CheckpointFile> take() {
    const std::lock_guard lock(mutex);
    return std::move(file);
  }
  bool taken() {
    const std::lock_guard lock(mutex);
    return file == nullptr;
  }

  const std::string path;
  std::mutex mutex;
  std::shared_ptr<CheckpointFile> file;
};

Outcome<std::shared_ptr<CheckpointFile>> FileDisposal::adopt(UniqueFd cached, UniqueFd direct) {
  auto file = CheckpointFile::adopt(std::move(cached), std::move(direct));
  if (!file || !may_hang((*file)->cached_fd())) return file;
  CheckpointFile* const address = file->get();
  return std::shared_ptr<CheckpointFile>(
      address,
      [self = shared_from_this(), kept = *std::move(file), path = path_of_descriptor(address->cached_fd())](
          CheckpointFile*) mutable { self->let_go(std::move(kept), std::move(path)); });
}

void FileDisposal::let_go(std::shared_ptr<CheckpointFile> file, std::string path) {
  if (stopped_) return;
  auto held = std::make_shared<Held>(std::move(file), std::move(path));
  boost::asio::post(executor_, [self = shared_from_this(), held = std::move(held)] {
    if (self->stopped_) return;
    const auto earlier = std::exchange(self->waiting_, {});
    for (const auto& one : earlier) self->close(one);
    self->close(held);
  });
}

void FileDisposal::close(const std::shared_ptr<Held>& held) {
  opener_.run<bool>(
      held->path,
      [held] {
        held->take().reset();
        return true;
      },
      [self = shared_from_this(), held](const Outcome<bool>&) {
        if (!held->taken()) self->waiting_.push_back(held);
      });
}

}  // namespace penstock
