// SPDX-License-Identifier: Apache-2.0
#include "bpf/pressure_watch.hpp"

#include <algorithm>
#include <csignal>

#include <poll.h>
#include <pthread.h>

#include "dataplane/base/lock_memory.hpp"

namespace penstock {
namespace {

// A place in poll(2)'s list that waits for nothing.
constexpr pollfd nothing{.fd = -1, .events = 0, .revents = 0};

int milliseconds_until(Nanoseconds deadline, Nanoseconds now) {
  if (deadline == never) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - now);
  return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 60'000));
}

}  // namespace

Result<std::unique_ptr<PressureWatch>> PressureWatch::start(ProbeSet& probes, std::vector<PressureEdge> edges,
                                                            Told told) {
  EventFd stop = TRY(EventFd::create());
  return std::unique_ptr<PressureWatch>(
      new PressureWatch(probes, std::move(edges), std::move(told), std::move(stop)));
}

PressureWatch::PressureWatch(ProbeSet& probes, std::vector<PressureEdge> edges, Told told, EventFd stop)
    : probes_(probes), edges_(std::move(edges)), told_(std::move(told)), stop_(std::move(stop)) {
  // Signals are for the thread that asked for them.
  sigset_t all, before;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { run(); });
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

PressureWatch::~PressureWatch() {
  stop_.signal();
  thread_.join();
}

void PressureWatch::look_at(std::size_t edge) {
  const std::optional<Pressure> passed = edges_[edge].look();
  if (!passed) return;
  // What the look has read: a second read would wait for the kernel's lock of that pressure again.
  if (told_.seen) told_.seen(edge, *passed);
  told_.pressure(edge);
}

void PressureWatch::see(std::size_t edge) {
  if (!told_.seen) return;
  if (const std::optional<Pressure> pressure = edges_[edge].read()) told_.seen(edge, *pressure);
}

void PressureWatch::run() {
  ::pthread_setname_np(::pthread_self(), "penstock-press");
  // It may be younger than the service's other protection. Not permitted is fine.
  static_cast<void>(lock_own_stack());
  std::vector<pollfd> waits{{.fd = stop_.fd(), .events = POLLIN, .revents = 0},
                            {.fd = probes_.hint_fd(), .events = POLLIN, .revents = 0}};
  std::vector<Nanoseconds> next_look(edges_.size(), never);
  for (std::size_t i = 0; i < edges_.size(); ++i) {
    waits.push_back({.fd = edges_[i].fd(), .events = POLLPRI, .revents = 0});
    if (!edges_[i].armed()) next_look[i] = monotonic_now() + edges_[i].window();
  }
  Nanoseconds next_seen = edges_.empty() || !told_.seen ? never : monotonic_now();
  while (true) {
    const Nanoseconds deadline =
        next_look.empty() ? never : std::min(next_seen, *std::ranges::min_element(next_look));
    const int ready = ::poll(waits.data(), waits.size(), milliseconds_until(deadline, monotonic_now()));
    if (ready > 0 && waits[0].revents != 0) return;
    if (ready > 0 && waits[1].revents != 0) probes_.consume_hints(told_.hint);
    const Nanoseconds now = monotonic_now();
    for (std::size_t i = 0; i < edges_.size(); ++i) {
      pollfd& wait = waits[i + 2];
      if (ready > 0 && (wait.revents & POLLPRI) != 0) look_at(i);
      // Its cgroup is gone: it stays ready for ever.
      if (ready > 0 && (wait.revents & POLLERR) != 0) wait = nothing;
      if (now < next_look[i]) continue;
      look_at(i);
      next_look[i] = now + edges_[i].window();
    }
    if (now < next_seen) continue;
    for (std::size_t i = 0; i < edges_.size(); ++i) see(i);
    next_seen = now + seen_period;
  }
}

}  // namespace penstock
