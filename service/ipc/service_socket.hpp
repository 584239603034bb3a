// SPDX-License-Identifier: Apache-2.0
// The Unix socket that clients connect to, from name to listening descriptor.
//
// Rules: a lock file beside the socket decides who is the one service; only "connection refused" proves that an old
// socket is stale; what is no socket is never touched; the mode is 0660 with the configured group from the first moment,
// whatever the umask (0600 when the group does not exist); the name goes away with a clean stop, unless the service
// manager passed the socket in.
#pragma once

#include <string>

#include "dataplane/base/failure.hpp"
#include "dataplane/base/unique_fd.hpp"

namespace penstock {

class ServiceSocket {
 public:
  struct Options {
    std::string path;
    std::string group;  // "" or absent on this system: 0600
    int backlog = 128;
  };

  // FailureKind::already_running, not_permitted, configuration (path too long, not a socket, no such directory).
  static Outcome<ServiceSocket> listen(const Options& options);
  // A listening SEQPACKET socket that was passed in (socket activation).
  static Outcome<ServiceSocket> adopt(UniqueFd fd);

  ServiceSocket(ServiceSocket&&) noexcept = default;
  ServiceSocket& operator=(ServiceSocket&&) = delete;
  // Removes the name if it is still this socket's.
  ~ServiceSocket();

  int fd() const { return fd_.get(); }
  const std::string& path() const { return path_; }
  const std::string& warning() const { return warning_; }  // "" or one line, e.g. an absent group.

 private:
  ServiceSocket() = default;

  UniqueFd fd_;
  UniqueFd lock_;
  std::string path_;
  std::string warning_;
};

}  // namespace penstock
