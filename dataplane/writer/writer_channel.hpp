// SPDX-License-Identifier: Apache-2.0
// WriterChannel: one end of the socket between service and writer. Checks shapes and enumerators, not meanings.
#pragma once

#include <array>
#include <span>
#include <utility>

#include "dataplane/base/result.hpp"
#include "dataplane/base/unique_fd.hpp"
#include "dataplane/writer/protocol.hpp"

namespace penstock {

// The commands of one message, with what came along: descriptors[i] belongs to commands[i], if that brings one.
struct ReceivedCommands {
  std::array<WriterCommand, writer_commands_max> commands;
  std::array<UniqueFd, writer_commands_max> descriptors;
  std::size_t count = 0;
};
struct ReceivedAnswers {
  std::array<WriterAnswer, writer_answers_max> answers;
  std::size_t count = 0;
};

// Errors of all four: Errc::busy, try again when the socket is ready; Errc::exhausted, try again later, no event tells
// when (descriptors in flight, memory); Errc::closed, the other end is gone; Errc::protocol, it is not what it should be.
class WriterChannel {
 public:
  WriterChannel() = default;
  explicit WriterChannel(UniqueFd socket) : socket_(std::move(socket)) {}
  // Service's end, writer's end.
  static Result<std::pair<WriterChannel, UniqueFd>> make_pair();

  // All or nothing. `descriptors`: of the commands that bring one, in order; borrowed.
  Result<> send(std::span<const WriterCommand> commands, std::span<const int> descriptors) const;
  Result<> send(std::span<const WriterAnswer> answers) const;
  Result<> receive(ReceivedCommands& received) const;
  Result<> receive(ReceivedAnswers& received) const;

  int fd() const { return socket_.get(); }
  explicit operator bool() const { return static_cast<bool>(socket_); }

 private:
  UniqueFd socket_;
};

}  // namespace penstock
