// SPDX-License-Identifier: Apache-2.0
#include "service/protocol/socket_io.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <cerrno>
#include <cstring>

#include "dataplane/base/check.hpp"

namespace penstock {
namespace {

// Room for more than the protocol allows, so that a sender's excess is told from our own lack of descriptors.
constexpr std::size_t descriptors_room = 253;  // SCM_MAX_FD of the kernel.
static_assert(descriptors_room > PSTW_DESCRIPTORS_MAX);

Error socket_error(const char* operation) {
  const int native = errno;
  switch (native) {
    case EAGAIN: return Error{Errc::busy, native, operation};
    case EPIPE:
    case ECONNRESET:
    case ENOTCONN:
    case ECONNREFUSED: return Error{Errc::closed, native, operation};
    case ETOOMANYREFS:
    case ENOBUFS:
    case ENOMEM:
    case EMFILE:
    case ENFILE: return Error{Errc::exhausted, native, operation};
    default: return Error{Errc::invalid, native, operation};
  }
}

// Waits without a bound; false when poll itself fails.
bool wait_for(int fd, short events) {
  pollfd one{fd, events, 0};
  int ready;
  do {
    ready = ::poll(&one, 1, -1);
  } while (ready < 0 && errno == EINTR);
  return ready > 0;
}

// Calls `attempt` until it is not interrupted and, with Wait::yes, until it would no longer block.
template <class Attempt>
ssize_t until_done(int fd, short events, Wait wait, Attempt attempt) {
  while (true) {
    const ssize_t result = attempt();
    if (result >= 0) return result;
    if (errno == EINTR) continue;
    if (errno != EAGAIN || wait == Wait::no || !wait_for(fd, events)) return result;
  }
}

// Takes every descriptor of the message; false when there are more than the protocol allows.
bool collect(msghdr& header, UniqueFds& descriptors) {
  bool fits = true;
  for (cmsghdr* part = CMSG_FIRSTHDR(&header); part != nullptr; part = CMSG_NXTHDR(&header, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd;
      std::memcpy(&fd, CMSG_DATA(part) + i * sizeof(int), sizeof(int));
      if (descriptors.size() < UniqueFds::capacity) {
        descriptors.add(fd);
      } else {
        UniqueFd(fd).reset();
        fits = false;
      }
    }
  }
  return fits;
}

}  // namespace

Result<> send_message(int fd, std::span<const std::byte> message, std::span<const int> descriptors,
                      Wait wait) {
  CHECK(!message.empty() && descriptors.size() <= PSTW_DESCRIPTORS_MAX);
  iovec part{const_cast<std::byte*>(message.data()), message.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * PSTW_DESCRIPTORS_MAX)];
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (!descriptors.empty()) {
    std::memset(control, 0, sizeof control);
    header.msg_control = control;
    header.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
    cmsghdr* const rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(descriptors.size_bytes());
    std::memcpy(CMSG_DATA(rights), descriptors.data(), descriptors.size_bytes());
  }
  const ssize_t sent =
      until_done(fd, POLLOUT, wait, [&] { return ::sendmsg(fd, &header, MSG_NOSIGNAL | MSG_DONTWAIT); });
  if (sent < 0) return socket_error("sendmsg");
  CHECK(static_cast<std::size_t>(sent) == message.size());
  return {};
}

Result<std::size_t> receive_message(int fd, std::span<std::byte> buffer, UniqueFds& descriptors, Wait wait) {
  descriptors.clear();
  iovec part{buffer.data(), buffer.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * descriptors_room)];
  msghdr header{};
  const ssize_t received = until_done(fd, POLLIN, wait, [&] {
    header = msghdr{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = sizeof control;
    return ::recvmsg(fd, &header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  });
  if (received < 0) return socket_error("recvmsg");
  const bool fits = collect(header, descriptors);
  const auto length = static_cast<std::int32_t>(received);
  if (!fits || (header.msg_flags & MSG_TRUNC) != 0) {
    descriptors.clear();
    return Error{Errc::protocol, EMSGSIZE, "recvmsg"};
  }
  if ((header.msg_flags & MSG_CTRUNC) != 0) {
    descriptors.clear();
    return Error{Errc::exhausted, length, "recvmsg: descriptors lost"};
  }
  if (received == 0) {
    descriptors.clear();
    return Error{Errc::closed, 0, "recvmsg"};
  }
  return static_cast<std::size_t>(received);
}

Result<std::size_t> receive_plain_message(int fd, std::span<std::byte> buffer, Wait wait) {
  iovec part{buffer.data(), buffer.size()};
  msghdr header{};
  const ssize_t received = until_done(fd, POLLIN, wait, [&] {
    header = msghdr{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    return ::recvmsg(fd, &header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  });
  if (received < 0) return socket_error("recvmsg");
  // Without room for descriptors the kernel drops them and says so.
  if ((header.msg_flags & MSG_CTRUNC) != 0) return Error{Errc::protocol, 0, "recvmsg: descriptors came"};
  if ((header.msg_flags & MSG_TRUNC) != 0) return Error{Errc::protocol, EMSGSIZE, "recvmsg"};
  if (received == 0) return Error{Errc::closed, 0, "recvmsg"};
  return static_cast<std::size_t>(received);
}

Result<std::pair<UniqueFd, UniqueFd>> make_socket_pair() {
  int pair[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) return socket_error("socketpair");
  return std::pair(UniqueFd(pair[0]), UniqueFd(pair[1]));
}

}  // namespace penstock
