// SPDX-License-Identifier: Apache-2.0
#include "service/ipc/peer_identity.hpp"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <fmt/format.h>

namespace penstock {
namespace {

#ifndef SO_PEERPIDFD
constexpr int so_peerpidfd = 77;  // Linux 6.5
#else
constexpr int so_peerpidfd = SO_PEERPIDFD;
#endif

UniqueFd pidfd_of(int socket, pid_t pid) {
  int fd = -1;
  socklen_t length = sizeof fd;
  if (::getsockopt(socket, SOL_SOCKET, so_peerpidfd, &fd, &length) == 0) return UniqueFd(fd);
  return UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
}

std::string command_of(pid_t pid) {
  const UniqueFd file(::open(fmt::format("/proc/{}/comm", pid).c_str(), O_RDONLY | O_CLOEXEC));
  char text[64];
  const ssize_t size = file ? ::read(file.get(), text, sizeof text) : 0;
  std::string name(text, size > 0 ? static_cast<std::size_t>(size) : 0);
  while (!name.empty() && name.back() == '\n') name.pop_back();
  return name;
}

}  // namespace

Result<PeerIdentity> identify_peer(int socket) {
  ucred credentials{};
  socklen_t length = sizeof credentials;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0) {
    return Error{Errc::denied, errno, "SO_PEERCRED"};
  }
  PeerIdentity peer;
  peer.uid = credentials.uid;
  peer.gid = credentials.gid;
  peer.pid = credentials.pid;
  peer.pidfd = pidfd_of(socket, credentials.pid);
  peer.command = command_of(credentials.pid);
  return peer;
}

bool is_member(const PeerIdentity& peer, const std::string& group_name) {
  if (group_name.empty()) return false;
  const group* entry = ::getgrnam(group_name.c_str());
  if (entry == nullptr) return false;
  if (entry->gr_gid == peer.gid) return true;
  const passwd* user = ::getpwuid(peer.uid);
  if (user == nullptr) return false;
  for (char** member = entry->gr_mem; *member != nullptr; ++member) {
    if (std::strcmp(*member, user->pw_name) == 0) return true;
  }
  return false;
}

}  // namespace penstock
