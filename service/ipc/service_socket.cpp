// SPDX-License-Identifier: Apache-2.0
#include "service/ipc/service_socket.hpp"

#include <cerrno>
#include <cstring>
#include <optional>

#include <fcntl.h>
#include <fmt/format.h>
#include <grp.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

namespace penstock {
namespace {

std::string reason(int error) { return std::strerror(error); }

Outcome<sockaddr_un> address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path || path.find('\0') != std::string::npos) {
    return fail(FailureKind::configuration,
                fmt::format("service.socket: the path has {} bytes, a Unix socket's name holds 1 to {}: {}",
                            path.size(), sizeof address.sun_path - 1, path),
                "choose a shorter path, for example /run/penstock/penstock.sock");
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

std::string directory_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

Outcome<void> make_directory(const std::string& directory) {
  if (::mkdir(directory.c_str(), 0755) == 0 || errno == EEXIST) return {};
  return fail(FailureKind::configuration, fmt::format("can't create {}: {}", directory, reason(errno)),
              "create the directory, or set service.socket to a path in one that exists");
}

// Held while the service lives; the kernel gives it up when the process dies, however it dies.
Outcome<UniqueFd> lock_beside(const std::string& path) {
  const std::string name = path + ".lock";
  UniqueFd lock(::open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!lock) return fail(FailureKind::not_permitted, fmt::format("can't open {}: {}", name, reason(errno)));
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) {
      return fail(FailureKind::already_running,
                  fmt::format("already running: another penstockd serves {}", path),
                  "stop it first, or give this one another service.socket");
    }
    return fail(FailureKind::internal, fmt::format("can't lock {}: {}", name, reason(errno)));
  }
  return lock;
}

// Asks whoever may be behind the name. REQUIRES: the lock is held.
Outcome<void> clear_stale(const std::string& path, const sockaddr_un& address) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0) return {};
  if (!S_ISSOCK(status.st_mode)) {
    return fail(FailureKind::configuration,
                fmt::format("{} exists and is no socket; it was left as it is", path),
                "remove it, or set service.socket to another path");
  }
  const UniqueFd probe(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!probe) return fail(FailureKind::internal, fmt::format("can't make a socket: {}", reason(errno)));
  if (::connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    if (errno == ECONNREFUSED) {
      ::unlink(path.c_str());
      return {};
    }
    // EAGAIN: a live listener with a full backlog. EPROTOTYPE: a live socket of another kind.
    if (errno != EAGAIN && errno != EPROTOTYPE) {
      return fail(FailureKind::not_permitted,
                  fmt::format("can't tell whether {} is in use: {}", path, reason(errno)));
    }
  }
  return fail(FailureKind::already_running, fmt::format("already running: somebody listens on {}", path),
              "stop it first, or give this one another service.socket");
}

std::optional<gid_t> find_group(const std::string& name) {
  if (name.empty()) return std::nullopt;
  const group* entry = ::getgrnam(name.c_str());
  if (entry == nullptr) return std::nullopt;
  return entry->gr_gid;
}

// Binds so that the name appears with its final mode and group. REQUIRES: no other thread creates files now.
int bind_as(int fd, const sockaddr_un& address, std::optional<gid_t> group) {
  const gid_t own = ::getegid();
  const bool switched = group && ::setegid(*group) == 0;
  const mode_t mask = ::umask(group ? 0117 : 0177);
  const int result = ::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 ? 0 : errno;
  ::umask(mask);
  if (switched && ::setegid(own) != 0) return errno;
  return result;
}

// A name beside the final one, so that a client finds either nothing or a socket that accepts. The final name itself
// where no other fits into an address.
std::string name_until_it_listens(const std::string& path) {
  std::string name = fmt::format("{}/.penstock-{}", directory_of(path), ::getpid());
  return address_of(name) ? name : path;
}

bool group_is(const std::string& path, gid_t group) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0) return false;
  return status.st_gid == group || ::lchown(path.c_str(), static_cast<uid_t>(-1), group) == 0;
}

}  // namespace

Outcome<ServiceSocket> ServiceSocket::listen(const Options& options) {
  const auto address = address_of(options.path);
  if (!address) return tl::unexpected(address.error());
  if (auto made = make_directory(directory_of(options.path)); !made) return tl::unexpected(made.error());
  auto lock = lock_beside(options.path);
  if (!lock) return tl::unexpected(lock.error());
  if (auto cleared = clear_stale(options.path, *address); !cleared) return tl::unexpected(cleared.error());

  ServiceSocket made;
  made.fd_ = UniqueFd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!made.fd_) return fail(FailureKind::internal, fmt::format("can't make a socket: {}", reason(errno)));
  const std::optional<gid_t> group = find_group(options.group);
  const std::string path = name_until_it_listens(options.path);
  ::unlink(path.c_str());  // Of a process with our number that was killed right here.
  if (const int error = bind_as(made.fd_.get(), *address_of(path), group); error != 0) {
    return fail(error == EADDRINUSE ? FailureKind::already_running : FailureKind::not_permitted,
                fmt::format("can't bind {}: {}", options.path, reason(error)));
  }
  made.path_ = path;
  if (!options.group.empty() && !group) {
    made.warning_ =
        fmt::format("group {} does not exist: {} is open to its owner only", options.group, options.path);
  } else if (group && !group_is(path, *group)) {
    ::chmod(path.c_str(), 0600);
    made.warning_ = fmt::format("can't give {} to group {}: {}", options.path, options.group, reason(errno));
  }
  if (::listen(made.fd_.get(), options.backlog) != 0) {
    return fail(FailureKind::internal, fmt::format("can't listen on {}: {}", options.path, reason(errno)));
  }
  if (path != options.path && ::rename(path.c_str(), options.path.c_str()) != 0) {
    return fail(FailureKind::not_permitted,
                fmt::format("can't name the socket {}: {}", options.path, reason(errno)));
  }
  made.path_ = options.path;
  made.lock_ = std::move(*lock);
  return made;
}

Outcome<ServiceSocket> ServiceSocket::adopt(UniqueFd fd) {
  int type = 0, listening = 0;
  socklen_t length = sizeof type;
  if (::getsockopt(fd.get(), SOL_SOCKET, SO_TYPE, &type, &length) != 0 || type != SOCK_SEQPACKET) {
    return fail(FailureKind::configuration,
                "the socket passed in by the service manager is no SOCK_SEQPACKET socket",
                "use ListenSequentialPacket= in the socket unit");
  }
  length = sizeof listening;
  if (::getsockopt(fd.get(), SOL_SOCKET, SO_ACCEPTCONN, &listening, &length) != 0 || listening == 0) {
    return fail(FailureKind::configuration, "the socket passed in by the service manager does not listen");
  }
  ServiceSocket made;
  made.fd_ = std::move(fd);
  return made;
}

ServiceSocket::~ServiceSocket() {
  // A successor can't exist while the lock is held, so the name is ours.
  if (fd_ && lock_ && !path_.empty()) ::unlink(path_.c_str());
}

}  // namespace penstock
