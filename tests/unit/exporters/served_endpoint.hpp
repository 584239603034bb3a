// SPDX-License-Identifier: Apache-2.0
// An endpoint on a thread of its own, and peers that speak to it over loopback in plain sockets.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dataplane/base/unique_fd.hpp"
#include "exporters/http_endpoint.hpp"

namespace penstock::test {

class ServedEndpoint {
 public:
  // Aborts the test program when it can't listen.
  explicit ServedEndpoint(std::vector<HttpRoute> routes, HttpLimits limits = {}, std::uint16_t port = 0);
  ~ServedEndpoint();
  ServedEndpoint(const ServedEndpoint&) = delete;
  ServedEndpoint& operator=(const ServedEndpoint&) = delete;

  std::uint16_t port() const;
  std::string address() const;
  HttpCounts counts() const;
  // Destroys the endpoint on its thread; the thread runs on.
  void close();
  // Asks again and again until it holds; false after 20 seconds.
  bool reaches(const std::function<bool(const HttpCounts&)>& condition) const;

 private:
  struct Parts;
  void on_thread(const std::function<void()>& work) const;
  std::unique_ptr<Parts> parts_;
};

class Peer {
 public:
  // Connects to 127.0.0.1. `receive_bytes`: size of the receive buffer; 0 leaves it alone.
  explicit Peer(std::uint16_t port, int receive_bytes = 0);

  bool connected() const { return static_cast<bool>(fd_); }
  void send(std::string_view text) const;
  // Until the other side closes; nullopt when it hasn't within 20 seconds. A reset ends it too.
  std::optional<std::string> receive_all() const;
  // One whole answer with its Content-Length; nullopt when the connection ends first.
  std::optional<std::string> receive_answer(bool head = false);

 private:
  std::optional<std::string> receive_some() const;
  UniqueFd fd_;
  std::string rest_;
};

// Sends GET and closes the connection; the whole answer.
std::string get(std::uint16_t port, std::string_view target);
std::string_view body_of(std::string_view answer);

}  // namespace penstock::test
