// SPDX-License-Identifier: Apache-2.0
// The only file that includes Boost.Beast: it costs a compiler more than the rest of the module together.
//
// A connection's life: reading -> answering -> idle -> reading ... -> lingering -> gone. Each step has its time; a
// connection that isn't held by a pending operation is gone.
#include "exporters/http_endpoint.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>

namespace penstock {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;

constexpr std::size_t linger_bytes_max = 64 * 1024;
constexpr int send_buffer_bytes = 128 * 1024;  // Bounds what the kernel holds for a peer that does not read.
constexpr Nanoseconds accept_pause = std::chrono::milliseconds(100);

std::string text_of(const tcp::endpoint& endpoint) {
  const std::string address = endpoint.address().to_string();
  const bool v6 = endpoint.address().is_v6();
  return fmt::format("{}{}{}:{}", v6 ? "[" : "", address, v6 ? "]" : "", endpoint.port());
}

// Own words: the C library's depend on the locale.
tl::unexpected<Failure> cannot_listen(const std::string& where, const error_code& error) {
  const auto because = [&](FailureKind kind, std::string_view why, std::string hint) {
    return fail(kind, fmt::format("address {}: {}", where, why), std::move(hint));
  };
  if (error == asio::error::address_in_use)
    return because(FailureKind::busy, "address already in use",
                   "another process listens there: ss -ltnp shows which");
  if (error == error_code(EADDRNOTAVAIL, boost::system::system_category()))
    return because(FailureKind::invalid_argument, "not an address of this host",
                   "ip address shows what there is");
  if (error == asio::error::access_denied)
    return because(FailureKind::not_permitted, "permission denied",
                   "ports below 1024 need a capability; take another");
  return because(FailureKind::internal, fmt::format("cannot listen (error number {})", error.value()), "");
}

enum class Phase { reading, answering, idle, lingering };

}  // namespace

class HttpEndpoint::State : public std::enable_shared_from_this<State> {
 public:
  class Connection;

  State(asio::io_context& context, const HttpOptions& options, std::vector<HttpRoute> routes)
      : acceptor_(context), pause_(context), limits_(options.limits), routes_(std::move(routes)) {}

  Outcome<void> listen(const HttpOptions& options);
  void accept();
  void close();
  void forget(const std::shared_ptr<Connection>& connection) {
    connections_.erase(connection);
    refusals_.erase(connection);
  }
  HttpReply reply_to(std::string_view target) const;
  const HttpLimits& limits() const { return limits_; }
  HttpCounts& counts() { return counts_; }
  HttpCounts counts_now() const;
  tcp::endpoint local() const { return local_; }

 private:
  void take(tcp::socket socket);
  bool make_room();

  tcp::acceptor acceptor_;
  asio::steady_timer pause_;
  tcp::endpoint local_;
  HttpLimits limits_;
  std::vector<HttpRoute> routes_;
  HttpCounts counts_;
  std::set<std::shared_ptr<Connection>> connections_, refusals_;
};

class HttpEndpoint::State::Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(std::shared_ptr<State> state, tcp::socket socket, bool refused)
      : state_(std::move(state)),
        stream_(std::move(socket)),
        buffer_(state_->limits().request_bytes_max),
        refused_(refused) {}

  void start() { read(refused_ ? state_->limits().grace : state_->limits().request_time); }

  // Pending operations end with an error soon; nothing else happens to this connection.
  void close() {
    error_code ignored;
    stream_.socket().close(ignored);
    state_->forget(shared_from_this());
  }

  Phase phase() const { return phase_; }
  Nanoseconds since() const { return since_; }

 private:
  void enter(Phase phase, Nanoseconds time) {
    phase_ = phase;
    since_ = monotonic_now();
    stream_.expires_after(time);
  }

  void wait_for_request() {
    if (buffer_.size() > 0) return read(state_->limits().request_time);
    enter(Phase::idle, state_->limits().idle_time);
    stream_.async_read_some(buffer_.prepare(state_->limits().request_bytes_max),
                            [self = shared_from_this()](const error_code& error, std::size_t bytes) {
                              if (error) return self->end(error);
                              self->buffer_.commit(bytes);
                              self->read(self->state_->limits().request_time);
                            });
  }

  void read(Nanoseconds time) {
    enter(Phase::reading, time);
    parser_.emplace();
    parser_->header_limit(state_->limits().request_bytes_max);
    http::async_read_header(
        stream_, buffer_, *parser_,
        [self = shared_from_this()](const error_code& error, std::size_t) { self->on_header(error); });
  }

  void on_header(const error_code& error) {
    if (error == http::error::header_limit || error == http::error::buffer_overflow)
      return answer({.status = 431, .body = "the request is too large\n"}, true);
    const bool is_grammar = error.category() == make_error_code(http::error::bad_method).category();
    if (is_grammar && error != http::error::end_of_stream)
      return answer({.status = 400, .body = "this is no HTTP request\n"}, true);
    if (error) return end(error);
    const auto& request = parser_->get();
    const bool has_body = parser_->chunked() || parser_->content_length().value_or(0) > 0;
    close_after_ = has_body || !request.keep_alive();
    head_only_ = request.method() == http::verb::head;
    if (refused_) return answer({.status = 503, .body = "too many connections\n"}, true);
    if (request.method() != http::verb::get && !head_only_)
      return answer({.status = 405, .body = "only GET and HEAD are served\n"}, close_after_);
    answer(state_->reply_to(std::string_view(request.target().data(), request.target().size())),
           close_after_);
  }

  void answer(HttpReply reply, bool close_after) {
    ++state_->counts().requests;
    close_after_ = close_after;
    response_.emplace(static_cast<http::status>(reply.status), 11);
    response_->set(http::field::content_type, reply.content_type);
    response_->set(http::field::cache_control, "no-store");
    response_->set("X-Content-Type-Options", "nosniff");
    if (reply.status == 405) response_->set(http::field::allow, "GET, HEAD");
    response_->keep_alive(!close_after);
    response_->content_length(reply.body.size());
    if (!head_only_) response_->body() = std::move(reply.body);
    enter(Phase::answering, state_->limits().answer_time);
    http::async_write(stream_, *response_, [self = shared_from_this()](const error_code& error, std::size_t) {
      self->response_.reset();
      if (error) return self->end(error);
      if (self->close_after_) return self->linger();
      self->wait_for_request();
    });
  }

  // Closing a socket with unread input would reset it, and the peer might lose our last answer.
  void linger() {
    error_code ignored;
    stream_.socket().shutdown(tcp::socket::shutdown_send, ignored);
    enter(Phase::lingering, state_->limits().grace);
    drain(linger_bytes_max);
  }

  void drain(std::size_t bytes_left) {
    buffer_.clear();
    stream_.async_read_some(
        buffer_.prepare(state_->limits().request_bytes_max),
        [self = shared_from_this(), bytes_left](const error_code& error, std::size_t bytes) {
          if (error || bytes >= bytes_left) return self->close();
          self->drain(bytes_left - bytes);
        });
  }

  void end(const error_code& error) {
    if (error == beast::error::timeout) ++state_->counts().timed_out;
    close();
  }

  std::shared_ptr<State> state_;
  beast::tcp_stream stream_;
  beast::flat_buffer buffer_;
  std::optional<http::request_parser<http::empty_body>> parser_;
  std::optional<http::response<http::string_body>> response_;
  Phase phase_ = Phase::reading;
  Nanoseconds since_{};
  bool refused_;
  bool close_after_ = false;
  bool head_only_ = false;
};

Outcome<void> HttpEndpoint::State::listen(const HttpOptions& options) {
  error_code error;
  const asio::ip::address address = asio::ip::make_address(options.address, error);
  if (error)
    return fail(FailureKind::invalid_argument,
                fmt::format("address {}: not a numeric address", options.address));
  const tcp::endpoint wanted(address, options.port);
  const auto tried = [&](auto&& step) {
    if (!error) step();
  };
  tried([&] { acceptor_.open(wanted.protocol(), error); });
  // A restart need not wait for the old connections' last state; two listeners are refused all the same.
  tried([&] { acceptor_.set_option(tcp::acceptor::reuse_address(true), error); });
  tried([&] { acceptor_.bind(wanted, error); });
  tried([&] { acceptor_.listen(asio::socket_base::max_listen_connections, error); });
  tried([&] { local_ = acceptor_.local_endpoint(error); });
  if (error) return cannot_listen(text_of(wanted), error);
  accept();
  return {};
}

void HttpEndpoint::State::accept() {
  acceptor_.async_accept([self = shared_from_this()](const error_code& error, tcp::socket socket) {
    if (!self->acceptor_.is_open()) return;
    if (!error) {
      self->take(std::move(socket));
      return self->accept();
    }
    // Out of descriptors or memory: the connection waits in the kernel, and trying at once again would spin.
    self->pause_.expires_after(accept_pause);
    self->pause_.async_wait([self](const error_code& stopped) {
      if (!stopped && self->acceptor_.is_open()) self->accept();
    });
  });
}

void HttpEndpoint::State::take(tcp::socket socket) {
  ++counts_.accepted;
  error_code ignored;
  socket.set_option(asio::socket_base::send_buffer_size(send_buffer_bytes), ignored);
  const bool refused = connections_.size() >= limits_.connections_max && !make_room();
  if (refused) {
    ++counts_.refused;
    if (refusals_.size() >= limits_.refusals_max) return;
  }
  const auto connection = std::make_shared<Connection>(shared_from_this(), std::move(socket), refused);
  (refused ? refusals_ : connections_).insert(connection);
  connection->start();
}

// True when one connection has given way to another.
bool HttpEndpoint::State::make_room() {
  const auto is_free = [](const std::shared_ptr<Connection>& one) {
    return one->phase() == Phase::idle || one->phase() == Phase::lingering;
  };
  const auto first_to_go = [&](const auto& a, const auto& b) {
    if (is_free(a) != is_free(b)) return is_free(a);
    return a->since() < b->since();
  };
  const auto found = std::min_element(connections_.begin(), connections_.end(), first_to_go);
  if (found == connections_.end()) return false;
  if (!is_free(*found) && (*found)->since() + limits_.grace > monotonic_now()) return false;
  ++counts_.displaced;
  // A copy: close() takes it out of the list. NOLINTNEXTLINE(performance-unnecessary-copy-initialization)
  const std::shared_ptr<Connection> victim = *found;
  victim->close();
  return true;
}

void HttpEndpoint::State::close() {
  error_code ignored;
  acceptor_.close(ignored);
  pause_.cancel();
  while (!connections_.empty()) std::shared_ptr<Connection>(*connections_.begin())->close();
  while (!refusals_.empty()) std::shared_ptr<Connection>(*refusals_.begin())->close();
}

HttpReply HttpEndpoint::State::reply_to(std::string_view target) const {
  const std::string_view path = target.substr(0, target.find('?'));
  const auto found = std::ranges::find(routes_, path, &HttpRoute::path);
  if (found != routes_.end()) return found->get();
  std::string known;
  for (const HttpRoute& route : routes_) known += " " + route.path;
  return {.status = 404, .body = "not found; there are:" + known + "\n"};
}

HttpCounts HttpEndpoint::State::counts_now() const {
  HttpCounts counts = counts_;
  counts.connections = connections_.size() + refusals_.size();
  return counts;
}

Outcome<std::unique_ptr<HttpEndpoint>> HttpEndpoint::open(asio::io_context& context,
                                                          const HttpOptions& options,
                                                          std::vector<HttpRoute> routes) {
  const auto state = std::make_shared<State>(context, options, std::move(routes));
  if (Outcome<void> listening = state->listen(options); !listening)
    return tl::unexpected<Failure>(listening.error());
  return std::unique_ptr<HttpEndpoint>(new HttpEndpoint(state));
}

HttpEndpoint::~HttpEndpoint() { state_->close(); }

std::string HttpEndpoint::address() const { return text_of(state_->local()); }
std::uint16_t HttpEndpoint::port() const { return state_->local().port(); }
HttpCounts HttpEndpoint::counts() const { return state_->counts_now(); }

}  // namespace penstock
