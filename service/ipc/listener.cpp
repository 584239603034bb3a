// SPDX-License-Identifier: Apache-2.0
#include "service/ipc/listener.hpp"

#include <cerrno>
#include <chrono>

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>

namespace penstock {
namespace {
// Out of descriptors: the backlog keeps the client, so a pause loses nobody.
constexpr auto pause_when_exhausted = std::chrono::milliseconds(50);
constexpr auto warning_period = std::chrono::seconds(10);
constexpr int accepts_per_turn = 64;
}  // namespace

Listener::Listener(boost::asio::io_context& context, const ServiceSocket& socket, Accepted accepted)
    : descriptor_(context, ::fcntl(socket.fd(), F_DUPFD_CLOEXEC, 0)),
      pause_(context),
      accepted_(std::move(accepted)) {
  wait();
}

Listener::~Listener() { stop(); }

void Listener::stop() {
  stopped_ = true;
  boost::system::error_code ignored;
  pause_.cancel();
  descriptor_.close(ignored);
}

void Listener::wait() {
  descriptor_.async_wait(boost::asio::posix::descriptor_base::wait_read,
                         [this, life = life_.watch()](const boost::system::error_code& error) {
                           if (error || life.over() || stopped_) return;
                           accept_some();
                         });
}

void Listener::accept_some() {
  for (int i = 0; i < accepts_per_turn && !stopped_; ++i) {
    UniqueFd client(::accept4(descriptor_.native_handle(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!client) {
      if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
        if (const auto now = std::chrono::steady_clock::now(); now >= next_warning_) {
          next_warning_ = now + warning_period;
          spdlog::warn("can't accept a client: {}; raise LimitNOFILE= of the service", std::strerror(errno));
        }
        pause_.expires_after(pause_when_exhausted);
        pause_.async_wait([this, life = life_.watch()](const boost::system::error_code& error) {
          if (!error && !life.over() && !stopped_) wait();
        });
        return;
      }
      if (errno == EINTR || errno == ECONNABORTED) continue;
      break;
    }
    auto peer = identify_peer(client.get());
    if (peer) accepted_(std::move(client), std::move(*peer));
  }
  if (!stopped_) wait();
}

}  // namespace penstock
