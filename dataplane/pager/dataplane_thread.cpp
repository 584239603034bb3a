// SPDX-License-Identifier: Apache-2.0
#include "dataplane/pager/dataplane_thread.hpp"

#include <csignal>
#include <future>
#include <mutex>
#include <utility>
#include <vector>

#include <pthread.h>
#include <sched.h>

#include "dataplane/base/clock.hpp"
#include "dataplane/base/linger.hpp"
#include "dataplane/base/lock_memory.hpp"
#include "dataplane/device/host/host_frame_summer.hpp"
#include "dataplane/device/writer_frame_summer.hpp"
#include "dataplane/io/pread_reader.hpp"
#include "dataplane/pager/poll_loop.hpp"

namespace penstock {
namespace {

// What a read or a copy that did not end may still write to: ring, stream and frames stay until the process ends.
void leave_behind(std::unique_ptr<LoadPipeline> loads, SharedDevice device) {
  struct Remains {
    std::unique_ptr<LoadPipeline> loads;
    SharedDevice device;
  };
  static std::mutex mutex;
  static auto* const remains = new std::vector<Remains>();
  const std::lock_guard lock(mutex);
  remains->push_back({std::move(loads), std::move(device)});
}

void enter_thread(const std::string& name) {
  ::pthread_setname_np(::pthread_self(), name.substr(0, 15).c_str());
  // Signals are the service thread's.
  sigset_t all;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
}

Failure out_of(const Error& error) {
  return {.kind = FailureKind::fd_limit,
          .message = std::string("a device's thread could not be set up: ") + error.operation,
          .hint = "raise LimitNOFILE="};
}

}  // namespace

Outcome<std::unique_ptr<DataplaneThread>> DataplaneThread::start(SharedDevice device,
                                                                 std::unique_ptr<EvictionPolicy> policy,
                                                                 const DataplaneThreadOptions& options,
                                                                 ReaderMaker make_reader) {
  std::unique_ptr<DataplaneThread> self(
      new DataplaneThread(std::move(device), std::move(policy), options, std::move(make_reader)));
  auto mail = Mailbox<PagerMail>::create(options.mail_messages);
  if (!mail) return tl::unexpected(out_of(mail.error()));
  auto news = Mailbox<PagerNews>::create(options.news_messages);
  if (!news) return tl::unexpected(out_of(news.error()));
  self->mail_ = *std::move(mail);
  self->news_ = *std::move(news);

  std::promise<Outcome<void>> opened;
  self->thread_ = std::thread([&opened, thread = self.get()] {
    enter_thread(thread->options_.name);
    prefault_stack();
    Outcome<void> outcome = thread->open_on_thread();
    const bool ok = outcome.has_value();
    opened.set_value(std::move(outcome));
    // From here on `opened` may be gone.
    if (ok) thread->run();
  });
  Outcome<void> outcome = opened.get_future().get();
  if (!outcome) return tl::unexpected(std::move(outcome.error()));
  return self;
}

DataplaneThread::DataplaneThread(SharedDevice device, std::unique_ptr<EvictionPolicy> policy,
                                 const DataplaneThreadOptions& options, ReaderMaker make_reader)
    : device_(std::move(device)),
      policy_(std::move(policy)),
      options_(options),
      make_reader_(std::move(make_reader)) {}

DataplaneThread::~DataplaneThread() {
  // Closing the mailbox counts as Stop, also when there is no room for one.
  if (mail_) mail_->close();
  if (thread_.joinable()) thread_.join();
}

Outcome<std::unique_ptr<LoadPipeline>> DataplaneThread::open_pipeline() {
  PinnedRingOptions ring_options = options_.ring;
  // Where reads can't go straight into frames, the writer copies from the ring, maybe from another process.
  ring_options.shared = !device_.owner->limits().frames_are_addressable;
  auto ring = PinnedRing::make(ring_options);
  if (!ring) return tl::unexpected(std::move(ring.error()));
  if (ring_options.shared) {
    const Result<> staged = device_.writer->use_staging((*ring)->memory(), (*ring)->fd());
    if (!staged) return tl::unexpected(out_of(staged.error()));
  }
  auto reader = make_reader_ ? make_reader_(ring->get()) : open_reader(options_.reader, ring->get());
  if (!reader) return tl::unexpected(std::move(reader.error()));
  report_ = reader->report;
  ReadStream::FallbackMaker fallback;
  if (options_.reader.io == ReaderOptions::Io::automatic) {
    fallback = [options = options_.reader] { return PreadReader::open(options); };
  }
  auto stream = ReadStream::make(std::move(reader->reader), std::move(fallback), options_.stream);
  if (!stream) return tl::unexpected(out_of(stream.error()));
  LoadPipelineOptions loads = options_.loads;
  loads.requests_max = options_.stream.requests_max;
  return std::make_unique<LoadPipeline>(*std::move(ring), *std::move(stream), *device_.writer,
                                        device_.owner->limits(), loads, tier_);
}

Result<> DataplaneThread::join_tier() {
  if (!options_.tier) return {};
  tier_ = {.tier = options_.tier, .user = TRY(options_.tier->add_user())};
  TRY(loop_->watch(tier_.tier->user_fd(tier_.user), PollLoop::Source::reads));
  return loop_->watch(tier_.tier->frames_fd(), PollLoop::Source::reads);
}

Outcome<void> DataplaneThread::open_on_thread() {
  auto loop = PollLoop::create();
  if (!loop) return tl::unexpected(out_of(loop.error()));
  loop_ = *std::move(loop);
  const Result<> joined = join_tier();
  if (!joined) return tl::unexpected(out_of(joined.error()));
  auto loads = open_pipeline();
  if (!loads) return tl::unexpected(std::move(loads.error()));
  const std::pair<int, PollLoop::Source> sources[] = {
      {mail_->fd(), PollLoop::Source::mail},
      {device_.owner->event_fd(), PollLoop::Source::device},
      {device_.writer->event_fd(), PollLoop::Source::device},
      {(*loads)->event_fd(), PollLoop::Source::reads},
  };
  for (const auto& [fd, source] : sources) {
    const Result<> watched = loop_->watch(fd, source);
    if (!watched) return tl::unexpected(out_of(watched.error()));
  }
  // Frames of a GPU are summed up where its context is.
  std::unique_ptr<FrameSummer> summer;
  if (device_.owner->limits().frames_are_addressable) {
    summer = std::make_unique<HostFrameSummer>();
  } else {
    summer = std::make_unique<WriterFrameSummer>(*device_.writer);
  }
  pager_ = std::make_unique<Pager>(Pager::Parts{.owner = *device_.owner,
                                                .writer = *device_.writer,
                                                .loads = *std::move(loads),
                                                .policy = std::move(policy_),
                                                .mail = *mail_,
                                                .news = *news_,
                                                .watch = *loop_,
                                                .stats = stats_,
                                                .summer = std::move(summer)},
                                   options_.pager);
  return {};
}

void DataplaneThread::run() {
  Nanoseconds now = monotonic_now();
  Linger linger(options_.linger);
  while (!pager_->stopped()) {
    if (linger.lingers(now)) {
      ::sched_yield();
      linger.yielded(now, monotonic_now());
    }
    const bool found = loop_->wait(linger.lingers(now) ? Nanoseconds{0} : time_to_wait(now));
    now = monotonic_now();
    if (!found && linger.lingers(now) && !pager_->wants_turn()) continue;
    pager_->turn(now, {.mail = loop_->ready(PollLoop::Source::mail),
                       .device = loop_->ready(PollLoop::Source::device),
                       .reads = loop_->ready(PollLoop::Source::reads),
                       .readable = loop_->readable(),
                       .writable = loop_->writable()});
    if (!pager_->has_unsettled()) continue;
    // The second reading of the clock: a fault that was served in this turn took as long as the turn.
    pager_->settle(now = monotonic_now());
    linger.begin(now);
    // Else with the turn that ends the lingering.
    if (!linger.lingers(now) || pager_->figures_are_old(now)) pager_->publish();
  }
  if (pager_->loads_left()) leave_behind(pager_->abandon_loads(), device_);
  // Reads, sockets and the ring belong to this thread, so they end here.
  pager_.reset();
}

// Until the next deadline; empty: for ever.
std::optional<Nanoseconds> DataplaneThread::time_to_wait(Nanoseconds now) const {
  if (pager_->wants_turn()) return Nanoseconds{0};
  const std::optional<Nanoseconds> due = pager_->next_deadline();
  if (!due) return std::nullopt;
  return *due - now;
}

}  // namespace penstock
