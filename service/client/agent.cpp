// SPDX-License-Identifier: Apache-2.0
#include "service/client/agent.hpp"

#include <cerrno>
#include <utility>

#include <sys/epoll.h>

#include "dataplane/base/check.hpp"
#include "service/client/event_queue.hpp"

namespace penstock {
namespace {

constexpr std::uint64_t stop_key = UINT64_MAX;

}  // namespace

Result<std::unique_ptr<Agent>> Agent::start(Serve serve, void* context) {
  UniqueFd epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) return Error{Errc::exhausted, errno, "epoll_create1"};
  EventFd stop = TRY(EventFd::create());
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = stop_key;
  if (::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, stop.fd(), &event) != 0) {
    return Error{Errc::exhausted, errno, "epoll_ctl"};
  }
  std::unique_ptr<Agent> agent(new Agent(ForkAwareFd(std::move(epoll)), std::move(stop), serve, context));
  agent->thread_ = TRY(start_quiet_thread([](void* self) { static_cast<Agent*>(self)->run(); }, agent.get()));
  return agent;
}

Agent::Agent(ForkAwareFd epoll, EventFd stop, Serve serve, void* context)
    : epoll_(std::move(epoll)), stop_(std::move(stop)), serve_(serve), context_(context) {}

Agent::~Agent() {
  if (!thread_.joinable()) return;
  stop_.signal();
  thread_.join();
}

void Agent::run() {
  while (true) {
    epoll_event events[16];
    const int count = ::epoll_wait(epoll_.get(), events, 16, -1);
    CHECK(count >= 0 || errno == EINTR);
    for (int i = 0; i < count; ++i) {
      if (events[i].data.u64 == stop_key) return;
      serve_(context_, events[i].data.u64);
    }
  }
}

}  // namespace penstock
