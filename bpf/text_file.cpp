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

// How many bytes of the buffer are the text.
Result<std::size_t> read_all(int fd, std::string& buffer) {
  std::size_t filled = 0;
  while (true) {
    if (filled == buffer.size()) buffer.resize(filled + first_read_bytes);
    const ssize_t got =
        ::pread(fd, buffer.data() + filled, buffer.size() - filled, static_cast<off_t>(filled));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Error{Errc::io, errno, "read"};
    if (got == 0) return filled;
    filled += static_cast<std::size_t>(got);
    if (filled > text_bytes_max) return Error{Errc::io, EFBIG, "read"};
  }
}

}  // namespace

Result<std::string> read_text(int directory, const char* path) {
  const UniqueFd fd = TRY(open_text(directory, path));
  std::string text;
  text.resize(TRY(read_all(fd.get(), text)));
  return text;
}

Result<std::string_view> TextFile::read(int directory) {
  if (!fd_) fd_ = TRY(open_text(directory, name_));
  const Result<std::size_t> bytes = read_all(fd_.get(), buffer_);
  if (bytes) return std::string_view(buffer_).substr(0, *bytes);
  fd_.reset();
  return bytes.error();
}

}  // namespace penstock
