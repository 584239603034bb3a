// SPDX-License-Identifier: Apache-2.0
#include "service/cli/new_file.hpp"

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "dataplane/base/units.hpp"
#include "dataplane/io/errno_name.hpp"
#include "service/cli/context.hpp"

namespace penstock {
namespace {

tl::unexpected<Failure> already_there(const std::string& path) {
  return fail(FailureKind::invalid_argument, printable(path) + ": exists already", "--force replaces it");
}

bool is_there(const std::string& path) {
  struct stat status {};
  return ::lstat(path.c_str(), &status) == 0;
}

std::string partial_name(const std::string& path) { return fmt::format("{}.{}.partial", path, ::getpid()); }

}  // namespace

NewFile::NewFile(std::string path, std::string partial, Existing existing, UniqueFd fd)
    : path_(std::move(path)), partial_(std::move(partial)), existing_(existing), fd_(std::move(fd)) {}

NewFile::NewFile(NewFile&& other) noexcept
    : path_(std::move(other.path_)),
      partial_(std::exchange(other.partial_, {})),
      existing_(other.existing_),
      fd_(std::move(other.fd_)) {}

NewFile::~NewFile() {
  if (!partial_.empty()) ::unlink(partial_.c_str());
}

Failure NewFile::failed(const char* operation, int native) const {
  if (native == ENOSPC || native == EDQUOT) {
    return {FailureKind::exhausted, printable(path_) + ": no room left on the disk",
            "free some, or use --bytes"};
  }
  return {native == EACCES || native == EPERM ? FailureKind::not_permitted : FailureKind::io_error,
          fmt::format("{}: {}: {}", printable(path_), operation, errno_name(native)), ""};
}

Outcome<NewFile> NewFile::create(const std::string& path, Existing existing) {
  if (existing == Existing::kept && is_there(path)) return already_there(path);
  const std::string folder = std::filesystem::path(path).parent_path().string();
  UniqueFd nameless(::open(folder.empty() ? "." : folder.c_str(), O_WRONLY | O_TMPFILE | O_CLOEXEC, 0666));
  if (nameless) return NewFile(path, {}, existing, std::move(nameless));
  std::string partial = partial_name(path);
  UniqueFd fd(::open(partial.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666));
  const int native = errno;
  const bool is_open = static_cast<bool>(fd);
  NewFile file(path, is_open ? std::move(partial) : std::string(), existing, std::move(fd));
  if (!is_open) return tl::unexpected(file.failed("open", native));
  return file;
}

// A file without a name gets one; 0 or an errno.
int NewFile::name(const std::string& as) {
  const std::string self = fmt::format("/proc/self/fd/{}", fd_.get());
  return ::linkat(AT_FDCWD, self.c_str(), AT_FDCWD, as.c_str(), AT_SYMLINK_FOLLOW) == 0 ? 0 : errno;
}

Outcome<void> NewFile::reserve(std::uint64_t bytes) {
  if (bytes == 0) return {};
  struct statvfs space {};
  const bool is_known = ::fstatvfs(fd_.get(), &space) == 0;
  const std::uint64_t free_bytes = is_known ? std::uint64_t{space.f_bavail} * space.f_frsize : 0;
  // Asked first: fallocate would take all that there is before it fails, and others would find the disk full meanwhile.
  const bool fits = !is_known || bytes <= free_bytes;
  if (fits && ::fallocate(fd_.get(), 0, 0, static_cast<off_t>(bytes)) == 0) return {};
  const int native = fits ? errno : ENOSPC;
  if (native == EOPNOTSUPP || native == ENOSYS) return {};
  Failure failure = failed("fallocate", native);
  if (failure.kind == FailureKind::exhausted && is_known) {
    failure.message += fmt::format(": needs {} bytes, has {}", bytes, free_bytes);
  }
  return tl::unexpected(std::move(failure));
}

Outcome<void> NewFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd_.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return tl::unexpected(failed("write", errno));
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return {};
}

Outcome<void> NewFile::publish() {
  if (::fsync(fd_.get()) != 0) return tl::unexpected(failed("fsync", errno));
  if (partial_.empty()) {
    const int native = name(path_);
    if (native == 0) return {};
    if (native != EEXIST) return tl::unexpected(failed("linkat", native));
    if (existing_ == Existing::kept) return already_there(path_);
    // What is there is replaced in one step, which takes a name to rename.
    std::string partial = partial_name(path_);
    if (const int refused = name(partial); refused != 0) return tl::unexpected(failed("linkat", refused));
    partial_ = std::move(partial);
  }
  const unsigned flags = existing_ == Existing::kept ? RENAME_NOREPLACE : 0;
  if (::renameat2(AT_FDCWD, partial_.c_str(), AT_FDCWD, path_.c_str(), flags) != 0) {
    const int native = errno;
    if (native == EEXIST) return already_there(path_);
    // Filesystems without that flag: the check at creation has to do.
    if (native != EINVAL || flags == 0 || ::rename(partial_.c_str(), path_.c_str()) != 0) {
      return tl::unexpected(failed("rename", native));
    }
  }
  partial_.clear();
  return {};
}

void NewFile::withdraw() { ::unlink(path_.c_str()); }

}  // namespace penstock
