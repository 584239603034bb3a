// SPDX-License-Identifier: Apache-2.0
#include "service/config/files.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <string_view>

#include "dataplane/base/unique_fd.hpp"
#include "service/config/screen.hpp"

namespace penstock {
namespace {

// Own words: the C library's depend on the locale.
std::string reason_of(int error) {
  switch (error) {
    case EACCES:
    case EPERM: return "permission denied";
    case ENOENT: return "no such file";
    case ENOTDIR: return "a part of its path is not a directory";
    case EISDIR: return "it is a directory";
    case ELOOP: return "too many symbolic links";
    case ENAMETOOLONG: return "the name is too long";
    case EIO: return "input/output error";
    default: return fmt::format("error number {}", error);
  }
}

tl::unexpected<Failure> refuse(std::string message) {
  return fail(FailureKind::configuration, std::move(message));
}

Outcome<std::string> read_whole(int fd) {
  std::string text;
  char part[16 * 1024];
  while (true) {
    const ssize_t got = ::read(fd, part, sizeof(part));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return refuse("cannot be read: " + reason_of(errno));
    if (got == 0) return text;
    text.append(part, static_cast<std::size_t>(got));
    if (text.size() > config_bytes_max)
      return refuse(fmt::format("is larger than {} bytes", config_bytes_max));
  }
}

}  // namespace

Outcome<std::optional<std::string>> read_config_file(const std::string& path) {
  // Non-blocking, so that a pipe in the file's place is refused instead of waited for.
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!fd && errno == ENOENT) return std::optional<std::string>();
  if (!fd) return refuse("cannot be read: " + reason_of(errno));
  struct stat facts {};
  if (::fstat(fd.get(), &facts) != 0) return refuse("cannot be read: " + reason_of(errno));
  if (S_ISDIR(facts.st_mode)) return refuse("is a directory, not a file");
  if (!S_ISREG(facts.st_mode)) return refuse("is not a regular file");
  if ((facts.st_mode & 0444) == 0)
    return refuse(fmt::format("cannot be read: its mode {:04o} lets nobody read it", facts.st_mode & 07777));
  Outcome<std::string> text = read_whole(fd.get());
  if (!text) return tl::unexpected<Failure>(text.error());
  return std::optional<std::string>(*std::move(text));
}

Outcome<std::vector<std::string>> list_drop_ins(const std::string& directory) {
  struct Close {
    void operator()(DIR* stream) const { ::closedir(stream); }
  };
  const std::unique_ptr<DIR, Close> stream(::opendir(directory.c_str()));
  std::vector<std::string> paths;
  if (stream == nullptr && errno == ENOENT) return paths;
  if (stream == nullptr)
    return refuse("cannot be listed: " + (errno == ENOTDIR ? "it is not a directory" : reason_of(errno)));
  while (const dirent* entry = ::readdir(stream.get())) {
    const std::string_view name = entry->d_name;
    if (name.ends_with(".toml") && !name.starts_with('.'))
      paths.push_back(fmt::format("{}/{}", directory, name));
  }
  std::ranges::sort(paths);
  return paths;
}

}  // namespace penstock
