// SPDX-License-Identifier: Apache-2.0
#include "tests/support/drive_device.hpp"

#include <array>
#include <cerrno>

#include <poll.h>

namespace penstock {
namespace {

constexpr int bound_ms = 20'000;

}  // namespace

bool wait_readable(int fd) {
  pollfd entry{.fd = fd, .events = POLLIN, .revents = 0};
  int ready = 0;
  do {
    ready = ::poll(&entry, 1, bound_ms);
  } while (ready < 0 && errno == EINTR);
  return ready == 1;
}

std::vector<CreateDone> reap_all(FrameOwner& owner, std::size_t count) {
  std::vector<CreateDone> all;
  std::array<CreateDone, 8> some;
  while (true) {
    const std::size_t got = owner.reap(std::span(some).first(std::min(some.size(), count - all.size())));
    all.insert(all.end(), some.begin(), some.begin() + static_cast<std::ptrdiff_t>(got));
    if (all.size() == count) return all;
    if (got == 0 && !wait_readable(owner.event_fd())) return all;
  }
}

CreateDone create_and_wait(FrameOwner& owner) {
  owner.create(0);
  const std::vector<CreateDone> done = reap_all(owner, 1);
  return done.empty() ? CreateDone{.result = CreateResult::lost} : done.front();
}

std::optional<FrameId> make_frame(FrameOwner& owner) {
  const CreateDone done = create_and_wait(owner);
  if (done.result != CreateResult::created) return std::nullopt;
  return done.frame;
}

bool wait_reached(FrameWriter& writer, FenceId fence) {
  while (true) {
    const Result<FenceId> reached = writer.reached();
    if (!reached) return false;
    if (*reached >= fence) return true;
    if (!wait_readable(writer.event_fd())) return false;
  }
}

}  // namespace penstock
