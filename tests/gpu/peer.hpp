// SPDX-License-Identifier: Apache-2.0
// Peer: another process of an experiment, forked before this one touched the driver, and a socket between the two.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

#include <sys/types.h>

#include "dataplane/base/unique_fd.hpp"

namespace penstock::gpu_check {

struct Message {
  std::uint64_t value = 0;
  UniqueFd fd;  // Maybe none.
};

class Channel {
 public:
  explicit Channel(UniqueFd socket) : socket_(std::move(socket)) {}
  // False when the other end is gone.
  bool send(std::uint64_t value, int fd = -1) const;
  // Nothing when the other end is gone, or says nothing for a minute.
  std::optional<Message> receive() const;
  // The value of the next message; 0 when there is none.
  std::uint64_t value() const;

 private:
  UniqueFd socket_;
};

class Peer {
 public:
  // The child runs `role` and ends.
  explicit Peer(const std::function<void(const Channel&)>& role);
  // Kills it.
  ~Peer();
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  const Channel& channel() const { return *channel_; }
  // Sends a number and waits for one.
  std::uint64_t ask(std::uint64_t value, int fd = -1) const;
  // Returns when the process is gone and reaped.
  void kill();
  // Waits for its end. True when it ended by itself with success.
  bool ended_well();

 private:
  std::optional<Channel> channel_;
  pid_t pid_ = -1;
};

}  // namespace penstock::gpu_check
