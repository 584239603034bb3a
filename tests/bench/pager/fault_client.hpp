// SPDX-License-Identifier: Apache-2.0
// The client's half of the fault benchmark, in a process of its own: faults as a client of the device socket does them,
// and round trips with a process that only echoes.
#pragma once

#include <cstdint>
#include <vector>

#include "dataplane/base/clock.hpp"
#include "dataplane/base/linger.hpp"
#include "dataplane/base/mapping.hpp"
#include "dataplane/base/unique_fd.hpp"
#include "service/client/shared_socket.hpp"
#include "service/protocol/device_codec.hpp"
#include "service/protocol/unique_fds.hpp"

namespace penstock::bench {

// Microseconds.
struct FaultTimes {
  std::vector<double> granted;  // Fault sent until the grant was received.
  std::vector<double> mapped;   // Until the page was mapped.
  std::vector<double> done;     // Until its descriptor was closed and the socket handed back, too.
};

class FaultClient {
 public:
  // `pages` of `page_bytes` each, of table 1.
  FaultClient(UniqueFd device, UniqueFd echo, std::uint32_t pages, std::uint64_t page_bytes);

  // Faults one page after another; each is released again, outside the measured time. With `pause`, that long a pause
  // lies before each.
  FaultTimes faults(std::uint32_t count, Nanoseconds pause);
  std::vector<double> echoes(std::uint32_t count, Nanoseconds pause);

 private:
  void send(const PeerMessage& message);
  wire::GrantBatch receive_grant();

  UniqueFd device_, echo_;
  std::uint32_t pages_;
  std::uint64_t page_bytes_;
  Mapping range_;
  wire::DeviceBuffer buffer_;
  UniqueFds fds_;
  std::uint64_t request_ = 0;
  std::uint32_t owed_ = 0;                        // The batch that the next message acknowledges.
  Linger linger_{std::chrono::microseconds(30)};  // As the library does.
  UniqueFd epoll_;                                // Of the thread that reads while nobody waits.
  SocketWatch watch_;
};

// Sends every message back until the other end hangs up.
void echo(int fd);

}  // namespace penstock::bench
