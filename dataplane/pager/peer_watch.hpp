// SPDX-License-Identifier: Apache-2.0
// How the pager tells the thread's poll loop which client sockets to watch. A record in tests.
#pragma once

#include "dataplane/base/ids.hpp"

namespace penstock {

class PeerWatch {
 public:
  virtual ~PeerWatch() = default;
  PeerWatch(const PeerWatch&) = delete;
  PeerWatch& operator=(const PeerWatch&) = delete;

  virtual void add(SessionId session, int fd) = 0;  // For reading.
  virtual void set_writable(SessionId session, int fd, bool watched) = 0;
  virtual void remove(SessionId session, int fd) = 0;

 protected:
  PeerWatch() = default;
};

}  // namespace penstock
