// SPDX-License-Identifier: Apache-2.0
#include "tests/gpu/peer.hpp"

#include <array>
#include <csignal>
#include <cstring>

#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dataplane/base/check.hpp"

namespace penstock::gpu_check {
namespace {

struct alignas(cmsghdr) Control {
  std::array<char, CMSG_SPACE(sizeof(int))> bytes{};
};

}  // namespace

bool Channel::send(std::uint64_t value, int fd) const {
  iovec data{.iov_base = &value, .iov_len = sizeof value};
  Control control;
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  if (fd >= 0) {
    message.msg_control = control.bytes.data();
    message.msg_controllen = control.bytes.size();
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof fd);
    std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
  }
  return ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL) == static_cast<ssize_t>(sizeof value);
}

std::optional<Message> Channel::receive() const {
  Message got;
  iovec data{.iov_base = &got.value, .iov_len = sizeof got.value};
  Control control;
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes.data();
  message.msg_controllen = control.bytes.size();
  const ssize_t size = ::recvmsg(socket_.get(), &message, MSG_CMSG_CLOEXEC);
  if (size != static_cast<ssize_t>(sizeof got.value)) return std::nullopt;
  if (const cmsghdr* const header = CMSG_FIRSTHDR(&message)) {
    int fd = -1;
    std::memcpy(&fd, CMSG_DATA(header), sizeof fd);
    got.fd = UniqueFd(fd);
  }
  return got;
}

std::uint64_t Channel::value() const {
  const std::optional<Message> message = receive();
  return message ? message->value : 0;
}

Peer::Peer(const std::function<void(const Channel&)>& role) {
  int ends[2] = {-1, -1};
  CHECK(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
  const timeval bound{.tv_sec = 60, .tv_usec = 0};
  for (const int end : ends) CHECK(::setsockopt(end, SOL_SOCKET, SO_RCVTIMEO, &bound, sizeof bound) == 0);
  pid_ = ::fork();
  CHECK(pid_ >= 0);
  if (pid_ == 0) {
    // Without this a peer of an experiment that crashed would keep device memory.
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::close(ends[0]);
    {
      const Channel channel{UniqueFd(ends[1])};
      role(channel);
    }
    ::_exit(0);
  }
  ::close(ends[1]);
  channel_.emplace(UniqueFd(ends[0]));
}

Peer::~Peer() { kill(); }

std::uint64_t Peer::ask(std::uint64_t value, int fd) const {
  channel_->send(value, fd);
  return channel_->value();
}

void Peer::kill() {
  if (pid_ < 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

bool Peer::ended_well() {
  int status = 0;
  const bool ended = ::waitpid(pid_, &status, 0) == pid_;
  pid_ = -1;
  return ended && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace penstock::gpu_check
