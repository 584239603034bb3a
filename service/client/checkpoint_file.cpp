// SPDX-License-Identifier: Apache-2.0
#include "service/client/checkpoint_file.hpp"

#include <cerrno>
#include <cstring>
#include <string_view>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dataplane/base/quote.hpp"

namespace penstock {
namespace {

constexpr int flags = O_RDONLY | O_CLOEXEC | O_NOCTTY;

std::string_view last_part(std::string_view path) {
  while (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
  return path.substr(path.rfind('/') + 1);
}

tl::unexpected<Failure> refused(const std::string& what, int native) {
  const std::string message = fmt::format("{}: {}", what, ::strerrordesc_np(native));
  switch (native) {
    case ENOENT:
    case ENOTDIR: return fail(FailureKind::not_found, message);
    case EACCES:
    case EPERM: return fail(FailureKind::not_permitted, message);
    case EMFILE:
    case ENFILE: return fail(FailureKind::fd_limit, message, "raise RLIMIT_NOFILE");
    case EIO: return fail(FailureKind::io_error, message);
    default: return fail(FailureKind::invalid_argument, message);
  }
}

// Another description of the same file, with flags of its own. Empty where /proc or the file's rights are in the way.
UniqueFd reopened(int fd, int extra) {
  const std::string path = fmt::format("/proc/self/fd/{}", fd);
  return UniqueFd(::open(path.c_str(), flags | extra));
}

Outcome<void> check_kind(int fd, const std::string& what) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) return refused(what, errno);
  if (S_ISDIR(status.st_mode)) {
    return fail(FailureKind::not_built,
                fmt::format("{} is a folder: models of several files are not built yet", what),
                "open its .safetensors files one by one");
  }
  if (!S_ISREG(status.st_mode))
    return fail(FailureKind::not_a_file, fmt::format("{} is no regular file", what));
  return {};
}

Outcome<void> check_name(std::string_view name) {
  if (!name.ends_with(".safetensors.index.json")) return {};
  return fail(FailureKind::not_built, fmt::format("{}: shard indexes are not built yet", quote(name)),
              "open the shards that it names one by one");
}

}  // namespace

Outcome<CheckpointFile> open_checkpoint_file(const char* path) {
  const std::string what = quote(path, 512);
  CheckpointFile file{std::string(last_part(path)), {}, {}};
  if (auto named = check_name(file.name); !named) return tl::unexpected(std::move(named.error()));
  // A FIFO would block an open without O_NONBLOCK; regular files don't know it.
  file.cached = UniqueFd(::open(path, flags | O_NONBLOCK));
  if (!file.cached) return refused(what, errno);
  if (auto kind = check_kind(file.cached.get(), what); !kind) return tl::unexpected(std::move(kind.error()));
  file.direct = reopened(file.cached.get(), O_DIRECT);
  return file;
}

Outcome<CheckpointFile> reopen_checkpoint_file(int fd, const char* name) {
  const std::string what =
      name != nullptr && *name != '\0' ? quote(name, 512) : fmt::format("descriptor {}", fd);
  const int mode = ::fcntl(fd, F_GETFL);
  if (mode < 0) return refused(what, errno);
  if ((mode & O_PATH) != 0 || (mode & O_ACCMODE) == O_WRONLY) {
    return fail(FailureKind::invalid_argument, fmt::format("{} is not open for reading", what));
  }
  if (auto kind = check_kind(fd, what); !kind) return tl::unexpected(std::move(kind.error()));
  CheckpointFile file;
  file.cached =
      UniqueFd((mode & O_DIRECT) != 0 ? reopened(fd, 0).release() : ::fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (!file.cached) return refused(what, errno);
  file.direct = reopened(fd, O_DIRECT);
  if (name != nullptr && *name != '\0') {
    file.name = last_part(name);
    return file;
  }
  char path[4096];
  const ssize_t length = ::readlink(fmt::format("/proc/self/fd/{}", fd).c_str(), path, sizeof path);
  file.name = length > 0 ? std::string(last_part({path, static_cast<std::size_t>(length)})) : what;
  return file;
}

}  // namespace penstock
