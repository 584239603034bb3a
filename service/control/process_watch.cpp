// SPDX-License-Identifier: Apache-2.0
#include "service/control/process_watch.hpp"

#include <algorithm>
#include <condition_variable>
#include <csignal>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include <pthread.h>

namespace penstock {
namespace {

struct Client {
  int pid = 0;
  std::shared_ptr<UniqueFd> pidfd;  // Shared with the reading that is under way.
  Nanoseconds next{};               // Look.
  Nanoseconds read_at{};
  std::optional<ProcessMemory> memory;
};

}  // namespace

struct ProcessWatch::Shared {
  explicit Shared(Options given) : options(std::move(given)) {}

  const Options options;
  mutable std::mutex mutex;
  std::condition_variable wake, ended_now;
  // All of these are guarded by the mutex.
  std::map<std::uint32_t, Client> clients;
  bool stopping = false;
  bool ended = false;
};

ProcessWatch::ProcessWatch(Options options) : shared_(std::make_shared<Shared>(std::move(options))) {
  // Signals are for the thread that asked for them.
  sigset_t all, before;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread([shared = shared_] { run(shared); }).detach();
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

ProcessWatch::~ProcessWatch() { stop(std::chrono::milliseconds(100)); }

void ProcessWatch::run(const std::shared_ptr<Shared>& shared) {
  ::pthread_setname_np(::pthread_self(), "penstock-procs");
  Nanoseconds rest_until{};
  std::unique_lock lock(shared->mutex);
  while (!shared->stopping) {
    const auto due =
        std::ranges::min_element(shared->clients, {}, [](const auto& entry) { return entry.second.next; });
    if (due == shared->clients.end()) {
      shared->wake.wait(lock);
      continue;
    }
    const Nanoseconds now = shared->options.clock();
    if (const Nanoseconds begin = std::max(due->second.next, rest_until); now < begin) {
      shared->wake.wait_for(lock, begin - now);
      continue;
    }
    due->second.next = now + shared->options.period;
    const std::uint32_t number = due->first;
    const std::shared_ptr<UniqueFd> pidfd = due->second.pidfd;
    const ProcessRef process{due->second.pid, pidfd->get()};
    lock.unlock();
    const Result<ProcessMemory> memory = shared->options.read(process);
    const Nanoseconds end = shared->options.clock();
    rest_until = end + (end - now) * shared->options.idle_for_each_busy;
    lock.lock();
    const auto still = shared->clients.find(number);
    if (still == shared->clients.end() || still->second.pidfd != pidfd) continue;
    still->second.memory = memory ? std::optional(*memory) : std::nullopt;
    still->second.read_at = now;
  }
  shared->ended = true;
  shared->ended_now.notify_all();
}

void ProcessWatch::follow(std::uint32_t client, int pid, std::shared_ptr<UniqueFd> pidfd) {
  const std::lock_guard lock(shared_->mutex);
  if (shared_->stopping) return;
  Client fresh;
  fresh.pid = pid;
  fresh.pidfd = std::move(pidfd);
  shared_->clients[client] = std::move(fresh);
  shared_->wake.notify_one();
}

void ProcessWatch::forget(std::uint32_t client) {
  const std::lock_guard lock(shared_->mutex);
  shared_->clients.erase(client);
}

std::vector<ClientMemoryFigures> ProcessWatch::latest() const {
  std::vector<ClientMemoryFigures> figures;
  const std::lock_guard lock(shared_->mutex);
  const Nanoseconds oldest = shared_->options.clock() - shared_->options.age_max;
  for (const auto& [number, client] : shared_->clients) {
    if (client.memory && client.read_at >= oldest) figures.push_back({number, *client.memory});
  }
  return figures;
}

bool ProcessWatch::stop(Nanoseconds patience) {
  std::unique_lock lock(shared_->mutex);
  shared_->stopping = true;
  shared_->wake.notify_all();
  return shared_->ended_now.wait_for(lock, patience, [this] { return shared_->ended; });
}

}  // namespace penstock
