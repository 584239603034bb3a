// SPDX-License-Identifier: Apache-2.0
// PollLoop: the epoll set of one dataplane thread. Level-triggered, so that what a turn leaves unread shows up again.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "dataplane/base/clock.hpp"
#include "dataplane/base/ids.hpp"
#include "dataplane/base/result.hpp"
#include "dataplane/base/unique_fd.hpp"
#include "dataplane/pager/peer_watch.hpp"

namespace penstock {

class PollLoop final : public PeerWatch {
 public:
  enum class Source : std::uint8_t { mail, device, reads };

  static Result<std::unique_ptr<PollLoop>> create();

  // A negative descriptor is ignored.
  Result<> watch(int fd, Source source);

  void add(SessionId session, int fd) override;
  void set_writable(SessionId session, int fd, bool watched) override;
  void remove(SessionId session, int fd) override;

  // Waits until something is ready, or `timeout` has passed; without one, for ever. True when something is ready.
  bool wait(std::optional<Nanoseconds> timeout);

  // What the last wait found.
  bool ready(Source source) const { return sources_[static_cast<std::size_t>(source)]; }
  std::span<const SessionId> readable() const { return readable_; }
  std::span<const SessionId> writable() const { return writable_; }

 private:
  explicit PollLoop(UniqueFd epoll) : epoll_(std::move(epoll)) {}

  UniqueFd epoll_;
  std::array<bool, 3> sources_{};
  std::vector<SessionId> readable_, writable_;
};

}  // namespace penstock
