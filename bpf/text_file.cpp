// SPDX-License-Identifier: Apache-2.0
#include "bpf/text_file.hpp"

#include <cerrno>

#include <fcntl.h>
#include <unistd.h>

namespace penstock {
namespace {

constexpr std::size_t text_bytes_max = 1024 * 1024;
constexpr std::size_t first_read_bytes = 16 * 1024;  // Any of these files in one call.

Result<UniqueFd> open_text(int directory, const char* path) {
  UniqueFd fd(::openat(directory, path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  if (!fd) return Error{errno == ENOENT || errno == ENOTDIR ? Errc::not_found : Errc::io, errno, "open"};
  return fd;
}

Result<std::string> read_all(int fd) {
  std::string text;
  std::size_t filled = 0;
  while (true) {
    if (filled == text.size()) text.resize(filled + first_read_bytes);
    const ssize_t got = ::pread(fd, text.data() + filled, text.size() - filled, static_cast<off_t>(filled));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Error{Errc::io, errno, "read"};
    if (got == 0) break;
    filled += static_cast<std::size_t>(got);
    if (filled > text_bytes_max) return Error{Errc::io, EFBIG, "read"};
  }
  text.resize(filled);
  return text;
}

}  // namespace

Result<std::string> read_text(int directory, const char* path) {
  const UniqueFd fd = TRY(open_text(directory, path));
  return read_all(fd.get());
}

Result<std::string> TextFile::read(int directory) {
  if (!fd_) fd_ = TRY(open_text(directory, name_));
  Result<std::string> text = read_all(fd_.get());
  if (!text) fd_.reset();
  return text;
}

}  // namespace penstock
