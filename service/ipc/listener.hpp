// SPDX-License-Identifier: Apache-2.0
// Accepts clients on the service's socket: identifies each, refuses those beyond the bound. Service thread only.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>

#include "dataplane/base/lifetime.hpp"
#include "dataplane/base/unique_fd.hpp"
#include "service/ipc/peer_identity.hpp"
#include "service/ipc/service_socket.hpp"

namespace penstock {

class Listener {
 public:
  using Accepted = std::function<void(UniqueFd, PeerIdentity)>;

  // The socket stays the caller's and must outlive the listener.
  Listener(boost::asio::io_context& context, const ServiceSocket& socket, Accepted accepted);
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  // Takes no more clients; those that wait in the backlog are refused by the kernel once the socket closes.
  void stop();

 private:
  void wait();
  void accept_some();

  boost::asio::posix::stream_descriptor descriptor_;
  boost::asio::steady_timer pause_;
  Lifetime life_;
  Accepted accepted_;
  bool stopped_ = false;
  std::chrono::steady_clock::time_point next_warning_{};
};

}  // namespace penstock
