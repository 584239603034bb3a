// SPDX-License-Identifier: Apache-2.0
#include "service/control/kernel_watch.hpp"

#include <algorithm>
#include <condition_variable>
#include <csignal>
#include <mutex>
#include <thread>

#include <fcntl.h>
#include <pthread.h>

#include "service/control/kernel_sampler.hpp"
#include "service/control/process_watch.hpp"

namespace penstock {
namespace {

struct Wanted {
  std::string path;
  std::shared_ptr<const CheckpointFile> file;
};
struct Client {
  int pid = 0;
  std::shared_ptr<UniqueFd> pidfd;  // Shared with the turn that reads its cgroup.
};

}  // namespace

struct KernelWatch::Shared {
  Shared(const Options& given, ProcessWatch::Options of_processes)
      : options(given), processes(std::move(of_processes)) {}

  const Options options;
  ProcessWatch processes;  // Has its own lock.
  mutable std::mutex mutex;
  std::condition_variable wake, ended_now;
  // All of these are guarded by the mutex, which is held for copies of them only.
  std::map<std::string, Wanted> wanted;
  std::map<std::uint32_t, Client> clients;
  bool look = false;  // Before the period is over.
  bool stopping = false;
  bool ended = false;
  std::string handling;  // What the thread is at.
  std::shared_ptr<const KernelStats> latest;
  std::vector<std::string> warnings;

  void set_handling(std::string what) {
    const std::lock_guard lock(mutex);
    handling = std::move(what);
  }
};

namespace {

// What the sampler follows, and what it has let go of.
struct Held {
  std::map<std::string, Wanted> followed;
  std::vector<Wanted> left;
};

// Brings what the sampler follows to what is wanted. The files are kept open until the sampler has let go, and then
// until nobody else has them: whoever closes an unlinked file last waits until its blocks are freed.
template <class SetHandling>
void follow_wanted(KernelSampler& sampler, Held& held, const std::map<std::string, Wanted>& wanted,
                   SetHandling set_handling) {
  std::erase_if(held.followed, [&](const auto& entry) {
    const auto still = wanted.find(entry.first);
    if (still != wanted.end() && still->second.file == entry.second.file) return false;
    set_handling(entry.second.path);
    sampler.forget(entry.first);
    held.left.push_back(entry.second);
    return true;
  });
  std::erase_if(held.left, [&](Wanted& one) {
    if (one.file.use_count() > 1) return false;
    set_handling(one.path);
    one.file.reset();
    return true;
  });
  for (const auto& [checkpoint, one] : wanted) {
    if (held.followed.contains(checkpoint)) continue;
    set_handling(one.path);
    sampler.follow(checkpoint, one.file->cached_fd(), one.file);
    held.followed[checkpoint] = one;
  }
}

}  // namespace

namespace {

ProcessWatch::Options of_processes(const KernelWatch::Options& options) {
  if (options.read_process) return {.read = options.read_process};
  auto root = std::make_shared<UniqueFd>(::open(options.root.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  return {.read = [root](const ProcessRef& process) { return read_process_memory(root->get(), process); }};
}

}  // namespace

KernelWatch::KernelWatch(std::unique_ptr<ProbeSet> probes, const Options& options)
    : shared_(std::make_shared<Shared>(options, of_processes(options))) {
  KernelSampler::Options of_sampler{.root = options.root, .remedy = options.remedy, .alarm = options.alarm};
  auto sampler = std::make_unique<KernelSampler>(std::move(probes), std::move(of_sampler));
  stalls_ = sampler->stalls();
  // Signals are for the thread that asked for them.
  sigset_t all, before;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread([shared = shared_, own = std::move(sampler)]() mutable {
    run(shared, std::move(own));
  }).detach();
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

KernelWatch::~KernelWatch() { stop(std::chrono::seconds(1)); }

void KernelWatch::run(const std::shared_ptr<Shared>& shared, std::unique_ptr<KernelSampler> sampler) {
  ::pthread_setname_np(::pthread_self(), "penstock-probes");
  Held held;
  std::unique_lock lock(shared->mutex);
  while (!shared->stopping) {
    shared->look = false;
    const std::map<std::string, Wanted> wanted = shared->wanted;
    const std::map<std::uint32_t, Client> clients = shared->clients;
    lock.unlock();
    const Nanoseconds start = monotonic_now();
    follow_wanted(*sampler, held, wanted, [&](std::string what) { shared->set_handling(std::move(what)); });
    shared->set_handling("the checkpoints' page cache");
    std::map<std::uint32_t, ProcessRef> processes;
    for (const auto& [number, client] : clients) processes[number] = {client.pid, client.pidfd->get()};
    auto stats = std::make_shared<KernelStats>(sampler->sample(start, processes));
    stats->processes = shared->processes.latest();
    std::vector<std::string> warnings = sampler->warnings();
    const Nanoseconds busy = monotonic_now() - start;
    const Nanoseconds pause = std::clamp(busy * shared->options.idle_for_each_busy, shared->options.period,
                                         std::max(shared->options.period, shared->options.period_max));
    lock.lock();
    shared->latest = std::move(stats);
    shared->warnings.insert(shared->warnings.end(), warnings.begin(), warnings.end());
    shared->wake.wait_for(lock, pause, [&] { return shared->stopping || shared->look; });
  }
  std::map<std::string, Wanted> rest = std::exchange(shared->wanted, {});
  lock.unlock();
  sampler.reset();
  held = {};
  rest.clear();
  lock.lock();
  shared->ended = true;
  shared->ended_now.notify_all();
}

void KernelWatch::follow(const std::string& checkpoint, const std::string& path,
                         std::shared_ptr<const CheckpointFile> file) {
  const std::lock_guard lock(shared_->mutex);
  if (shared_->stopping) return;
  shared_->wanted[checkpoint] = {path, std::move(file)};
  shared_->look = true;
  shared_->wake.notify_one();
}

void KernelWatch::forget(const std::string& checkpoint) {
  decltype(shared_->wanted)::node_type gone;  // Closed after the lock.
  const std::lock_guard lock(shared_->mutex);
  gone = shared_->wanted.extract(checkpoint);
  shared_->look = true;
  shared_->wake.notify_one();
}

void KernelWatch::follow_client(std::uint32_t client, const ProcessRef& process) {
  auto pidfd = std::make_shared<UniqueFd>(::fcntl(process.pidfd, F_DUPFD_CLOEXEC, 0));
  // Without it nothing says whether the number is still this client's.
  if (!*pidfd) return;
  shared_->processes.follow(client, process.pid, pidfd);
  const std::lock_guard lock(shared_->mutex);
  shared_->clients[client] = {process.pid, std::move(pidfd)};
}

void KernelWatch::forget_client(std::uint32_t client) {
  shared_->processes.forget(client);
  const std::lock_guard lock(shared_->mutex);
  shared_->clients.erase(client);
}

std::shared_ptr<const KernelStats> KernelWatch::stats() const {
  const std::lock_guard lock(shared_->mutex);
  if (!shared_->latest || monotonic_now() - shared_->latest->at > shared_->options.age_max) return nullptr;
  return shared_->latest;
}

std::vector<std::string> KernelWatch::warnings() {
  const std::lock_guard lock(shared_->mutex);
  return std::exchange(shared_->warnings, {});
}

std::string KernelWatch::stop(Nanoseconds patience) {
  // One that hangs in a process of a client is left alone, as is the thread of the probes.
  shared_->processes.stop(std::min<Nanoseconds>(patience, std::chrono::milliseconds(100)));
  std::unique_lock lock(shared_->mutex);
  shared_->stopping = true;
  shared_->wake.notify_all();
  const bool ended = shared_->ended_now.wait_for(lock, patience, [this] { return shared_->ended; });
  return ended ? std::string() : shared_->handling;
}

}  // namespace penstock
