// SPDX-License-Identifier: Apache-2.0
#include "service/ipc/control_channel.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <boost/asio/post.hpp>

#include "service/protocol/control_codec.hpp"
#include "service/protocol/socket_io.hpp"

namespace penstock {
namespace {
constexpr auto retry_when_exhausted = std::chrono::milliseconds(10);
constexpr int messages_per_turn = 16;
}  // namespace

ControlChannel::ControlChannel(boost::asio::io_context& context, UniqueFd socket)
    : socket_(context, socket.release()), retry_(context), buffer_(PSTW_MESSAGE_BYTES_MAX) {}

void ControlChannel::start(Handlers handlers) {
  handlers_ = std::move(handlers);
  wait_readable();
}

void ControlChannel::wait_readable() {
  socket_.async_wait(boost::asio::posix::descriptor_base::wait_read,
                     [self = shared_from_this()](const boost::system::error_code& error) {
                       if (!error && self->open_) self->read_some();
                     });
}

void ControlChannel::read_some() {
  for (int i = 0; i < messages_per_turn && open_; ++i) {
    UniqueFds descriptors;
    const auto size = receive_message(socket_.native_handle(), buffer_, descriptors);
    if (!size) {
      if (size.error().code == Errc::busy) break;
      if (size.error().code == Errc::exhausted) {
        const auto request =
            wire::request_of(std::span(buffer_).first(static_cast<std::size_t>(size.error().native)));
        send(request, Failure{FailureKind::fd_limit, "the service is out of descriptors",
                              "raise LimitNOFILE= of the service"});
        continue;
      }
      end(size.error().code == Errc::closed ? FailureKind::disconnected : FailureKind::protocol_violation,
          size.error().operation);
      return;
    }
    auto decoded = wire::decode_client_message(std::span(buffer_).first(*size), descriptors.size());
    if (!decoded) {
      const auto request = wire::request_of(std::span(buffer_).first(*size));
      if (request != 0) {
        send(request, Failure{FailureKind::protocol_violation, decoded.error().operation,
                              "is the library older or newer than the service?"});
      }
      end(FailureKind::protocol_violation, decoded.error().operation);
      return;
    }
    handlers_.message(decoded->request, std::move(decoded->message), std::move(descriptors));
  }
  if (open_) wait_readable();
}

void ControlChannel::send(std::uint64_t request, const wire::ServiceMessage& message,
                          std::vector<UniqueFd> descriptors) {
  if (!open_) return;
  auto bytes = wire::encode(request, message);
  if (!bytes) {
    spdlog::error("an answer could not be encoded: {}", bytes.error().operation);
    end(FailureKind::internal, bytes.error().operation);
    return;
  }
  queue({std::move(*bytes), std::move(descriptors), false});
}

void ControlChannel::send_event(const wire::ServiceMessage& message) {
  if (!open_) return;
  if (unsent_.size() >= PSTW_REQUESTS_MAX) {
    // The front may be half way through a retry of its own; it is a whole datagram, so it may go, too.
    const auto oldest = std::ranges::find_if(unsent_, [](const Unsent& one) { return one.event; });
    if (oldest == unsent_.end()) return;
    unsent_.erase(oldest);
  }
  auto bytes = wire::encode(0, message);
  if (bytes) queue({std::move(*bytes), {}, true});
}

void ControlChannel::queue(Unsent unsent) {
  if (unsent_.size() >= unsent_max) {
    end(FailureKind::protocol_violation, fmt::format("the client left {} answers unread", unsent_.size()));
    return;
  }
  unsent_.push_back(std::move(unsent));
  if (!writing_) flush();
}

void ControlChannel::flush() {
  writing_ = false;
  while (!unsent_.empty()) {
    std::vector<int> fds;
    for (const UniqueFd& fd : unsent_.front().descriptors) fds.push_back(fd.get());
    const auto sent = send_message(socket_.native_handle(), unsent_.front().bytes, fds);
    if (!sent) {
      if (sent.error().code == Errc::busy) return wait_writable(false);
      if (sent.error().code == Errc::exhausted) return wait_writable(true);
      end(FailureKind::disconnected, sent.error().operation);
      return;
    }
    unsent_.pop_front();
  }
}

void ControlChannel::wait_writable(bool later) {
  writing_ = true;
  auto go_on = [self = shared_from_this()](const boost::system::error_code& error) {
    if (!error && self->open_) self->flush();
  };
  if (later) {
    // Too many descriptors of this user are unread: no event tells when that ends.
    retry_.expires_after(retry_when_exhausted);
    retry_.async_wait(std::move(go_on));
  } else {
    socket_.async_wait(boost::asio::posix::descriptor_base::wait_write, std::move(go_on));
  }
}

void ControlChannel::end(FailureKind kind, std::string text) {
  if (!open_) return;
  // Told later: the caller may be half way through its own work. close() clears the handlers after that.
  boost::asio::post(socket_.get_executor(), [self = shared_from_this(), kind, text = std::move(text)] {
    if (self->handlers_.closed) std::exchange(self->handlers_.closed, nullptr)(kind, text);
  });
  close();
}

void ControlChannel::close() {
  if (!open_) return;
  open_ = false;
  retry_.cancel();
  boost::system::error_code ignored;
  socket_.close(ignored);
  // The handlers hold the session, which holds this channel.
  boost::asio::post(retry_.get_executor(), [self = shared_from_this()] { self->handlers_ = {}; });
}

}  // namespace penstock
