// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/exporters/served_endpoint.hpp"

#include <charconv>
#include <future>
#include <thread>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>

#include "dataplane/base/check.hpp"
#include "dataplane/base/clock.hpp"

namespace penstock::test {
namespace {

constexpr Nanoseconds patience = std::chrono::seconds(20);

}  // namespace

struct ServedEndpoint::Parts {
  boost::asio::io_context context;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work{context.get_executor()};
  std::unique_ptr<HttpEndpoint> endpoint;
  std::uint16_t port = 0;
  std::string address;
  std::thread thread;
};

ServedEndpoint::ServedEndpoint(std::vector<HttpRoute> routes, HttpLimits limits, std::uint16_t port)
    : parts_(std::make_unique<Parts>()) {
  auto opened = HttpEndpoint::open(parts_->context, {.address = "127.0.0.1", .port = port, .limits = limits},
                                   std::move(routes));
  CHECK(opened);
  parts_->endpoint = *std::move(opened);
  parts_->port = parts_->endpoint->port();
  parts_->address = parts_->endpoint->address();
  parts_->thread = std::thread([this] { parts_->context.run(); });
}

ServedEndpoint::~ServedEndpoint() {
  close();
  parts_->work.reset();
  parts_->thread.join();
}

std::uint16_t ServedEndpoint::port() const { return parts_->port; }
std::string ServedEndpoint::address() const { return parts_->address; }

HttpCounts ServedEndpoint::counts() const {
  HttpCounts counts;
  on_thread([&] { counts = parts_->endpoint->counts(); });
  return counts;
}

void ServedEndpoint::close() {
  on_thread([&] { parts_->endpoint.reset(); });
}

bool ServedEndpoint::reaches(const std::function<bool(const HttpCounts&)>& condition) const {
  const Nanoseconds deadline = monotonic_now() + patience;
  while (!condition(counts())) {
    if (monotonic_now() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

void ServedEndpoint::on_thread(const std::function<void()>& work) const {
  std::promise<void> done;
  boost::asio::post(parts_->context, [&] {
    work();
    done.set_value();
  });
  done.get_future().wait();
}

Peer::Peer(std::uint16_t port, int receive_bytes) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  if (receive_bytes > 0)
    ::setsockopt(fd_.get(), SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof(receive_bytes));
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(port);
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(fd_.get(), reinterpret_cast<const sockaddr*>(&to), sizeof(to)) != 0) fd_.reset();
}

void Peer::send(std::string_view text) const {
  while (!text.empty()) {
    const ssize_t sent = ::send(fd_.get(), text.data(), text.size(), MSG_NOSIGNAL);
    if (sent <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(sent));
  }
}

// Empty: the connection has ended. nullopt: nothing came in time.
std::optional<std::string> Peer::receive_some() const {
  pollfd ready{.fd = fd_.get(), .events = POLLIN, .revents = 0};
  const auto milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(patience);
  if (::poll(&ready, 1, static_cast<int>(milliseconds.count())) != 1) return std::nullopt;
  char part[64 * 1024];
  const ssize_t got = ::recv(fd_.get(), part, sizeof(part), 0);
  return std::string(part, got > 0 ? static_cast<std::size_t>(got) : 0);
}

std::optional<std::string> Peer::receive_all() const {
  std::string all = rest_;
  while (true) {
    const std::optional<std::string> part = receive_some();
    if (!part) return std::nullopt;
    if (part->empty()) return all;
    all += *part;
  }
}

std::optional<std::string> Peer::receive_answer(bool head) {
  while (true) {
    const std::size_t end = rest_.find("\r\n\r\n");
    if (end != std::string::npos) {
      constexpr std::string_view name = "Content-Length: ";
      const std::size_t at = rest_.find(name);
      CHECK(at < end);
      std::size_t length = 0;
      std::from_chars(rest_.data() + at + name.size(), rest_.data() + end, length);
      const std::size_t whole = end + 4 + (head ? 0 : length);
      if (rest_.size() >= whole) {
        const std::string answer = rest_.substr(0, whole);
        rest_.erase(0, whole);
        return answer;
      }
    }
    const std::optional<std::string> part = receive_some();
    if (!part || part->empty()) return std::nullopt;
    rest_ += *part;
  }
}

std::string get(std::uint16_t port, std::string_view target) {
  const Peer peer(port);
  peer.send("GET " + std::string(target) + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  return peer.receive_all().value_or("no answer in time");
}

std::string_view body_of(std::string_view answer) {
  const std::size_t end = answer.find("\r\n\r\n");
  return end == std::string_view::npos ? std::string_view() : answer.substr(end + 4);
}

}  // namespace penstock::test
