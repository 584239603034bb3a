// SPDX-License-Identifier: Apache-2.0
#include "dataplane/io/checkpoint_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <utility>

#include "dataplane/io/errno_name.hpp"

namespace penstock {
namespace {

std::int64_t nanoseconds(const struct timespec& time) {
  return static_cast<std::int64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

FileIdentity identity_of(const struct stat& status) {
  return FileIdentity{.device = status.st_dev,
                      .inode = status.st_ino,
                      .bytes = static_cast<std::uint64_t>(status.st_size),
                      .mtime_ns = nanoseconds(status.st_mtim),
                      .ctime_ns = nanoseconds(status.st_ctim)};
}

tl::unexpected<Failure> cannot(const char* what, int native) {
  return fail(FailureKind::io_error, fmt::format("cannot {}: {}", what, errno_name(native)));
}

// An O_PATH descriptor passes fstat and fails every read, so the mode is asked for as well.
Outcome<int> readable_flags(int fd) {
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags < 0) return cannot("inspect the descriptor", errno);
  if ((flags & O_PATH) != 0 || (flags & O_ACCMODE) == O_WRONLY) {
    return fail(FailureKind::not_permitted, "the descriptor is not open for reading");
  }
  return flags;
}

// Believes direct I/O only where the filesystem reports its alignment: a working open(O_DIRECT) proves
// nothing (tmpfs opens and then reads through the cache).
DirectLimits ask_direct_limits(int direct_fd) {
  struct statx status {};
  const int rc = ::statx(direct_fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &status);
  if (rc != 0) return DirectLimits{.reason = "statx failed"};
  if ((status.stx_mask & STATX_DIOALIGN) == 0) return DirectLimits{.reason = "STATX_DIOALIGN absent"};
  if (status.stx_dio_offset_align == 0 || status.stx_dio_mem_align == 0) {
    return DirectLimits{.reason = "STATX_DIOALIGN says that this file has no direct I/O"};
  }
  return DirectLimits{.usable = true,
                      .offset_granule = status.stx_dio_offset_align,
                      .memory_granule = status.stx_dio_mem_align};
}

// Opens the file behind `fd` a second time, so that a rename in between can't yield another file. Empty when
// refused.
UniqueFd reopen_direct(int fd, const std::string& path) {
  const int flags = O_RDONLY | O_DIRECT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
  UniqueFd direct(::open(fmt::format("/proc/self/fd/{}", fd).c_str(), flags));
  if (!direct) direct.reset(::open(path.c_str(), flags));  // No /proc in this sandbox.
  return direct;
}

}  // namespace

std::string FileIdentity::id() const {
  std::uint64_t hash = 0;
  for (const std::uint64_t word :
       {device, inode, bytes, static_cast<std::uint64_t>(mtime_ns), static_cast<std::uint64_t>(ctime_ns)}) {
    // The finaliser of SplitMix64: each field changes about half of all bits.
    hash = (hash ^ word) + 0x9e3779b97f4a7c15ull;
    hash = (hash ^ (hash >> 30)) * 0xbf58476d1ce4e5b9ull;
    hash = (hash ^ (hash >> 27)) * 0x94d049bb133111ebull;
    hash ^= hash >> 31;
  }
  return fmt::format("{:012x}", hash >> 16);
}

Outcome<std::shared_ptr<CheckpointFile>> CheckpointFile::adopt(UniqueFd cached, UniqueFd direct) {
  if (!cached) return fail(FailureKind::invalid_argument, "no descriptor of the checkpoint was given");
  struct stat status {};
  if (::fstat(cached.get(), &status) != 0) return cannot("stat the checkpoint", errno);
  if (!S_ISREG(status.st_mode)) return fail(FailureKind::not_a_file, "the checkpoint is no regular file");
  const auto flags = readable_flags(cached.get());
  if (!flags) return tl::unexpected(flags.error());
  if ((*flags & O_DIRECT) != 0) {
    return fail(FailureKind::invalid_argument,
                "the first descriptor is open with O_DIRECT; it must be buffered");
  }

  auto file = std::shared_ptr<CheckpointFile>(new CheckpointFile);
  file->identity_ = identity_of(status);
  file->links_ = status.st_nlink;
  file->cached_ = std::move(cached);
  file->residency_ = PageResidency::of(file->cached_.get(), file->identity_.bytes);
  if (!direct) {
    file->direct_limits_.reason = "no descriptor with O_DIRECT";
    return file;
  }

  struct stat direct_status {};
  if (::fstat(direct.get(), &direct_status) != 0) return cannot("stat the second descriptor", errno);
  if (direct_status.st_dev != status.st_dev || direct_status.st_ino != status.st_ino) {
    return fail(FailureKind::invalid_argument, "the two descriptors are not the same file");
  }
  const auto direct_flags = readable_flags(direct.get());
  if (!direct_flags) return tl::unexpected(direct_flags.error());
  if ((*direct_flags & O_DIRECT) == 0) {
    file->direct_limits_.reason = "the second descriptor lacks O_DIRECT";
    return file;
  }
  file->direct_limits_ = ask_direct_limits(direct.get());
  if (file->direct_limits_.usable) file->direct_ = std::move(direct);
  return file;
}

Outcome<std::shared_ptr<CheckpointFile>> CheckpointFile::open(const std::string& path) {
  // O_NONBLOCK: opening a FIFO that nobody writes to must not hang. It means nothing on a regular file.
  UniqueFd cached(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  if (!cached) {
    const int native = errno;
    const FailureKind kind = native == ENOENT || native == ENOTDIR  ? FailureKind::not_found
                             : native == EACCES || native == EPERM  ? FailureKind::not_permitted
                             : native == EMFILE || native == ENFILE ? FailureKind::fd_limit
                                                                    : FailureKind::io_error;
    return fail(kind, fmt::format("cannot open {}: {}", path, errno_name(native)));
  }
  UniqueFd direct = reopen_direct(cached.get(), path);
  return adopt(std::move(cached), std::move(direct));
}

Outcome<void> CheckpointFile::verify_unchanged() const {
  struct stat status {};
  if (::fstat(cached_.get(), &status) != 0) return cannot("stat the checkpoint", errno);
  const FileIdentity now = identity_of(status);
  if (now == identity_) return {};
  if (now.bytes != identity_.bytes) {
    return fail(FailureKind::changed_while_read,
                fmt::format("file {} from {} to {} during load",
                            now.bytes < identity_.bytes ? "shrank" : "grew", identity_.bytes, now.bytes));
  }
  if (now.mtime_ns != identity_.mtime_ns) {
    return fail(FailureKind::changed_while_read, "file was written to during load (mtime changed)");
  }
  // Renaming another file over the path, and unlinking it, change only the link count, and ctime with it. The
  // open descriptor still has the old content.
  if (status.st_nlink != links_) return {};
  return fail(FailureKind::changed_while_read, "file was changed during load (ctime changed)");
}

}  // namespace penstock
