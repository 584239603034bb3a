// SPDX-License-Identifier: Apache-2.0
#include "service/client/greeting.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "dataplane/base/quote.hpp"
#include "service/client/shared_socket.hpp"
#include "service/client/status.hpp"
#include "service/protocol/control_codec.hpp"
#include "service/protocol/socket_io.hpp"

namespace penstock {
namespace {

Failure too_late() {
  return {FailureKind::unreachable, "the service accepted no greeting in time",
          "is it stopped or overloaded?"};
}

tl::unexpected<Failure> not_connected(const std::string& path, int native) {
  const std::string message = fmt::format("{}: {}", quote(path, 512), ::strerrordesc_np(native));
  switch (native) {
    case EACCES:
    case EPERM: return fail(FailureKind::not_permitted, message, "is this user in the group of the socket?");
    case EMFILE:
    case ENFILE: return fail(FailureKind::fd_limit, message, "raise RLIMIT_NOFILE");
    case EAGAIN: return tl::unexpected(too_late());
    default:
      return fail(FailureKind::unreachable, message,
                  "is penstockd running? PENSTOCK_SOCKET names another socket");
  }
}

Outcome<UniqueFd> connect_to(const std::string& path, Nanoseconds deadline) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path) {
    return fail(FailureKind::invalid_argument,
                path.empty() ? "the path of the service's socket is empty"
                             : fmt::format("{} is too long for a socket's path", quote(path, 512)));
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!socket) return not_connected(path, errno);
  // Bounds the wait for a place in the queue of a service that accepts nobody.
  const std::int64_t left = std::max<std::int64_t>((deadline - monotonic_now()).count(), 1000);
  const timeval bound{left / 1'000'000'000, left % 1'000'000'000 / 1000};
  (void)::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &bound, sizeof bound);
  int connected;
  do {
    connected = ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
  } while (connected != 0 && errno == EINTR && monotonic_now() < deadline);
  if (connected != 0) return not_connected(path, errno);
  const timeval none{};
  (void)::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &none, sizeof none);
  return socket;
}

Outcome<wire::HelloReply> read_reply(int socket, Nanoseconds deadline) {
  std::vector<std::byte> buffer(PSTW_MESSAGE_BYTES_MAX);
  while (true) {
    const auto length = receive_plain_message(socket, buffer);
    if (!length && length.error().code == Errc::busy) {
      if (monotonic_now() >= deadline) return tl::unexpected(too_late());
      poll_until(socket, POLLIN, deadline);
      continue;
    }
    if (!length)
      return fail(FailureKind::unreachable, "the service hung up instead of answering the greeting");
    auto decoded = wire::decode_service_message(std::span(buffer).first(*length), 0);
    if (!decoded) {
      return fail(FailureKind::protocol_mismatch,
                  fmt::format("what answers there is no penstockd of protocol {}: {}", +PSTW_PROTOCOL,
                              decoded.error().operation));
    }
    if (auto* failure = std::get_if<Failure>(&decoded->message)) return tl::unexpected(std::move(*failure));
    if (const auto* refused = std::get_if<wire::Refused>(&decoded->message)) {
      return fail(FailureKind::protocol_mismatch,
                  fmt::format("the service speaks protocol {}, this library protocol {}",
                              refused->service_protocol, +PSTW_PROTOCOL),
                  "use the library that came with the service");
    }
    auto* reply = std::get_if<wire::HelloReply>(&decoded->message);
    if (reply == nullptr)
      return fail(FailureKind::protocol_violation, "the service did not answer the greeting");
    if (reply->protocol != PSTW_PROTOCOL) {
      return fail(FailureKind::protocol_mismatch,
                  fmt::format("the service speaks protocol {}, this library protocol {}", reply->protocol,
                              +PSTW_PROTOCOL),
                  "use the library that came with the service");
    }
    return std::move(*reply);
  }
}

}  // namespace

Outcome<Greeted> greet(const std::string& path, const std::string& name, Nanoseconds deadline) {
  auto socket = connect_to(path, deadline);
  if (!socket) return tl::unexpected(std::move(socket.error()));
  const auto hello = wire::encode(
      1, wire::Hello{.protocol = PSTW_PROTOCOL, .version = library_version, .name = name, .events = true});
  if (!hello) return tl::unexpected(to_failure(hello.error(), "the greeting can't be sent"));
  if (const auto sent = send_message(socket->get(), *hello); !sent) {
    return fail(FailureKind::unreachable, "the service hung up before the greeting");
  }
  auto reply = read_reply(socket->get(), deadline);
  if (!reply) return tl::unexpected(std::move(reply.error()));
  return Greeted{std::move(*socket), std::move(*reply)};
}

}  // namespace penstock
