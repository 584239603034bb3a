// SPDX-License-Identifier: Apache-2.0
// The service's end of one client's control socket: whole messages in, whole messages out. Service thread only.
//
// A send never blocks: what the socket doesn't take waits here, bounded. A client that doesn't read loses its oldest
// events first and its connection when even its answers pass the bound; others never notice.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>

#include "dataplane/base/failure.hpp"
#include "dataplane/base/unique_fd.hpp"
#include "service/protocol/control_messages.hpp"
#include "service/protocol/unique_fds.hpp"

namespace penstock {

class ControlChannel : public std::enable_shared_from_this<ControlChannel> {
 public:
  struct Handlers {
    std::function<void(std::uint64_t request, wire::ClientMessage&&, UniqueFds&&)> message;
    // Once, at the first of: hang-up, violation (`text` names the rule), more unsent than the bound.
    std::function<void(FailureKind, std::string text)> closed;
  };
  static constexpr std::size_t unsent_max = 2 * PSTW_REQUESTS_MAX;

  ControlChannel(boost::asio::io_context& context, UniqueFd socket);

  void start(Handlers handlers);
  void send(std::uint64_t request, const wire::ServiceMessage& message,
            std::vector<UniqueFd> descriptors = {});
  // Events go only where they fit: the oldest unsent event makes room.
  void send_event(const wire::ServiceMessage& message);
  // Sends what still fits, then hangs up. `closed` is not called.
  void close();

 private:
  struct Unsent {
    std::vector<std::byte> bytes;
    std::vector<UniqueFd> descriptors;
    bool event = false;
  };

  void wait_readable();
  void read_some();
  void flush();
  void wait_writable(bool later);
  void end(FailureKind kind, std::string text);
  void queue(Unsent unsent);

  boost::asio::posix::stream_descriptor socket_;
  boost::asio::steady_timer retry_;
  Handlers handlers_;
  std::deque<Unsent> unsent_;
  std::vector<std::byte> buffer_;
  bool writing_ = false;
  bool open_ = true;
};

}  // namespace penstock
