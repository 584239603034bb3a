// SPDX-License-Identifier: Apache-2.0
// Agent: the library's own thread. It reads the sockets while no thread of the application waits on them: revokes of
// agent-mode tables, events, hang-ups.
#pragma once

#include <cstdint>
#include <memory>
#include <thread>

#include "dataplane/base/event_fd.hpp"
#include "dataplane/base/result.hpp"
#include "service/client/fork_gate.hpp"

namespace penstock {

class Agent {
 public:
  // Calls serve(context, key) for each socket of the epoll set that has something.
  using Serve = void (*)(void* context, std::uint64_t key);
  static Result<std::unique_ptr<Agent>> start(Serve serve, void* context);
  // Waits for a call that runs.
  ~Agent();
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;

  int epoll() const { return epoll_.get(); }

 private:
  Agent(ForkAwareFd epoll, EventFd stop, Serve serve, void* context);
  void run();

  ForkAwareFd epoll_;
  EventFd stop_;
  Serve serve_;
  void* context_;
  std::thread thread_;
};

}  // namespace penstock
