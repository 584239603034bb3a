// SPDX-License-Identifier: Apache-2.0
// HttpEndpoint: serves GET and HEAD of a few paths over HTTP/1.1, to clients that may be slow, mute or hostile.
//
// Everything runs on the thread that runs the io_context; construction and destruction too. Bounds:
//   * `connections_max` connections. When one more comes, the one that has been idle between two requests for longest
//     gives way, else one that has kept us waiting for `grace` at least; else the newcomer gets 503.
//   * `refusals_max` of those that get 503 at once; more are closed without a word.
//   * a request of `request_bytes_max`, within `request_time`; an answer taken within `answer_time`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dataplane/base/clock.hpp"
#include "dataplane/base/failure.hpp"
#include "exporters/http_types.hpp"

namespace boost::asio {
class io_context;
}

namespace penstock {

struct HttpLimits {
  std::size_t connections_max = 256;
  std::size_t refusals_max = 32;
  std::uint32_t request_bytes_max = 8192;
  Nanoseconds request_time = std::chrono::seconds(5);
  Nanoseconds answer_time = std::chrono::seconds(5);
  Nanoseconds idle_time = std::chrono::seconds(120);
  Nanoseconds grace = std::chrono::seconds(1);
};

struct HttpOptions {
  std::string address;     // Numeric.
  std::uint16_t port = 0;  // 0: the kernel chooses.
  HttpLimits limits{};
};

// Totals since the start, and connections now.
struct HttpCounts {
  std::size_t connections = 0;
  std::uint64_t accepted = 0;
  std::uint64_t requests = 0;  // Answered, whatever the status.
  std::uint64_t timed_out = 0;
  std::uint64_t displaced = 0;  // Gave way to others.
  std::uint64_t refused = 0;    // With 503 or without a word.
};

class HttpEndpoint {
 public:
  // Listens when it returns. Failure: "address 127.0.0.1:9836: address already in use".
  static Outcome<std::unique_ptr<HttpEndpoint>> open(boost::asio::io_context& context,
                                                     const HttpOptions& options,
                                                     std::vector<HttpRoute> routes);
  // Closes the listener and every connection. The io_context need not run again.
  ~HttpEndpoint();
  HttpEndpoint(const HttpEndpoint&) = delete;
  HttpEndpoint& operator=(const HttpEndpoint&) = delete;

  // Where it really listens: "127.0.0.1:9836", "[::1]:9836".
  std::string address() const;
  std::uint16_t port() const;
  HttpCounts counts() const;

 private:
  class State;
  explicit HttpEndpoint(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

}  // namespace penstock
