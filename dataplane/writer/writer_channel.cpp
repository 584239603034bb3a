// SPDX-License-Identifier: Apache-2.0
#include "dataplane/writer/writer_channel.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <sys/socket.h>
#include <sys/uio.h>

#include "dataplane/base/check.hpp"

namespace penstock {
namespace {

Error socket_error(const char* operation) {
  const int native = errno;
  switch (native) {
    case EAGAIN:
    case EINTR: return Error{Errc::busy, native, operation};
    case ETOOMANYREFS:
    case ENOBUFS:
    case ENOMEM: return Error{Errc::exhausted, native, operation};
    default: return Error{Errc::closed, native, operation};
  }
}

Result<> send_bytes(int fd, std::span<const std::byte> bytes, std::span<const int> descriptors) {
  iovec part{const_cast<std::byte*>(bytes.data()), bytes.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * writer_commands_max)] = {};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (!descriptors.empty()) {
    header.msg_control = control;
    header.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
    cmsghdr* const rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(descriptors.size_bytes());
    std::memcpy(CMSG_DATA(rights), descriptors.data(), descriptors.size_bytes());
  }
  if (::sendmsg(fd, &header, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) return socket_error("send to the writer");
  return {};
}

// Takes what came along; false when it is more than `descriptors` holds.
bool take_descriptors(msghdr& header, std::span<UniqueFd> descriptors, std::size_t& count) {
  bool fits = true;
  for (cmsghdr* part = CMSG_FIRSTHDR(&header); part != nullptr; part = CMSG_NXTHDR(&header, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    for (std::size_t at = 0; CMSG_LEN(at + sizeof(int)) <= part->cmsg_len; at += sizeof(int)) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(part) + at, sizeof fd);
      UniqueFd owned(fd);
      if (count == descriptors.size()) {
        fits = false;
      } else {
        descriptors[count++] = std::move(owned);
      }
    }
  }
  return fits;
}

Result<std::size_t> receive_bytes(int fd, std::span<std::byte> buffer, std::span<UniqueFd> descriptors,
                                  std::size_t& descriptor_count) {
  iovec part{buffer.data(), buffer.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * writer_commands_max)];
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = descriptors.empty() ? nullptr : control;
  header.msg_controllen = descriptors.empty() ? 0 : sizeof control;
  const ssize_t length = ::recvmsg(fd, &header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  if (length < 0) return socket_error("receive from the writer's socket");
  const bool fits = take_descriptors(header, descriptors, descriptor_count);
  if (length == 0) return Error{Errc::closed, 0, "writer's socket"};
  if (!fits || (header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0) {
    return Error{Errc::protocol, header.msg_flags, "writer's message"};
  }
  return static_cast<std::size_t>(length);
}

bool well_formed(const WriterCommand& command) {
  std::uint8_t words[4];
  std::memcpy(words, &command, sizeof words);
  return words[0] < writer_op_count && words[1] <= 1 && words[2] < dtype_count && words[3] < dtype_count;
}

bool well_formed(const WriterAnswer& answer) {
  return static_cast<std::uint8_t>(answer.kind) < writer_answer_count;
}

template <class Value, std::size_t most>
Result<> take_values(std::span<const std::byte> bytes, std::array<Value, most>& values, std::size_t& count) {
  if (bytes.size() % sizeof(Value) != 0) return Error{Errc::protocol, 0, "length of a writer's message"};
  std::memcpy(values.data(), bytes.data(), bytes.size());
  const std::span<const Value> all(values.data(), bytes.size() / sizeof(Value));
  for (const Value& value : all) {
    if (!well_formed(value)) return Error{Errc::protocol, 0, "content of a writer's message"};
  }
  count = all.size();
  return {};
}

}  // namespace

Result<std::pair<WriterChannel, UniqueFd>> WriterChannel::make_pair() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return Error{Errc::exhausted, errno, "socketpair"};
  }
  return std::pair(WriterChannel(UniqueFd(ends[0])), UniqueFd(ends[1]));
}

Result<> WriterChannel::send(std::span<const WriterCommand> commands,
                             std::span<const int> descriptors) const {
  CHECK(!commands.empty() && commands.size() <= writer_commands_max);
  CHECK(descriptors.size() <= commands.size());
  return send_bytes(socket_.get(), std::as_bytes(commands), descriptors);
}

Result<> WriterChannel::send(std::span<const WriterAnswer> answers) const {
  CHECK(!answers.empty() && answers.size() <= writer_answers_max);
  return send_bytes(socket_.get(), std::as_bytes(answers), {});
}

Result<> WriterChannel::receive(ReceivedCommands& received) const {
  received.count = 0;
  std::array<std::byte, sizeof(WriterCommand) * writer_commands_max> bytes;
  std::array<UniqueFd, writer_commands_max> came;
  std::size_t descriptors = 0;
  const std::size_t length = TRY(receive_bytes(socket_.get(), bytes, came, descriptors));
  TRY(take_values(std::span(bytes).first(length), received.commands, received.count));
  std::size_t next = 0;
  for (std::size_t i = 0; i < received.count; ++i) {
    received.descriptors[i].reset();
    if (!brings_descriptor(received.commands[i].op)) continue;
    if (next < descriptors) received.descriptors[i] = std::move(came[next]);
    ++next;
  }
  if (next == descriptors) return {};
  received.count = 0;
  return Error{Errc::protocol, 0, "descriptors of a writer's message"};
}

Result<> WriterChannel::receive(ReceivedAnswers& received) const {
  received.count = 0;
  std::array<std::byte, sizeof(WriterAnswer) * writer_answers_max> bytes;
  std::size_t descriptors = 0;
  const std::size_t length = TRY(receive_bytes(socket_.get(), bytes, {}, descriptors));
  return take_values(std::span(bytes).first(length), received.answers, received.count);
}

}  // namespace penstock
