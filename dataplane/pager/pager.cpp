// SPDX-License-Identifier: Apache-2.0
// The turn: gathers events, feeds the core, follows up.
#include "dataplane/pager/pager.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "dataplane/base/check.hpp"

namespace penstock {
namespace {

// Commands of one step. More go out with Continue.
constexpr std::size_t command_capacity = 1024;
static_assert(command_capacity >= command_buffer_min);

// What follows from what in one turn, e.g. frame made -> load started. More waits for the next turn.
constexpr int rounds_max = 16;

PagerCoreOptions core_options(const DeviceLimits& device, const PagerOptions& options) {
  CHECK(device.frame_bytes > 0);
  return {.budget_frames = static_cast<std::uint32_t>(std::min(options.budget_bytes, device.capacity_bytes) /
                                                      device.frame_bytes),
          .revoke_deadline = options.revoke_deadline,
          .cooperative_deadline = options.cooperative_deadline};
}

FailureKind creation_failure(CreateResult result) {
  switch (result) {
    case CreateResult::no_headroom: return FailureKind::headroom;
    case CreateResult::fd_limit: return FailureKind::fd_limit;
    case CreateResult::lost: return FailureKind::device_unhealthy;
    case CreateResult::exhausted:
    case CreateResult::created: break;
  }
  return FailureKind::exhausted;
}

}  // namespace

Pager::Pager(Parts parts, const PagerOptions& options)
    : owner_(parts.owner),
      writer_(parts.writer),
      device_(owner_.limits()),
      options_(options),
      loads_(std::move(parts.loads)),
      mail_(parts.mail),
      news_(parts.news),
      watch_(parts.watch),
      stats_(parts.stats),
      core_(core_options(device_, options), std::move(parts.policy)),
      commands_(command_capacity),
      scrubber_(owner_, std::move(parts.summer), options.scrub) {
  events_.reserve(command_capacity);
  feeding_.reserve(command_capacity);
  unsettled_.reserve(64);
  stats_.capacity_bytes = device_.capacity_bytes;
  stats_.ring_bytes = loads_->ring().bytes();
  publish();
}

Pager::~Pager() {
  for (const auto& [id, session] : sessions_) {
    if (!session->gone) watch_.remove(id, session->port().fd());
  }
}

void Pager::turn(Nanoseconds now, const Ready& ready) {
  now_ = now;
  stats_.turns_begun.store(++turns_, std::memory_order_release);
  if (ready.mail) take_mail();
  if (ready.device) poll_device();
  if (ready.reads || loads_->wants_poll()) loads_touched_ = true;
  pump();
  for (const SessionId id : ready.writable) {
    PeerSession* session = find_session(id);
    if (session == nullptr || session->gone) continue;
    session->outbox().flush();
    after_sending(*session);
  }
  for (const SessionId id : ready.readable) serve(id);
  run_timers();
  pump();
  finish_closed_tables();
  news_.flush();
  if (stopping()) try_stop();
  buried_.clear();
  // The client that was just answered may wait for this very processor: the figures come with settle().
  if (unsettled_.empty()) publish();
}

void Pager::feed(const Event& event) {
  bool more = core_.step(event, now_, commands_);
  run_commands();
  while (more) {
    more = core_.step(Continue{}, now_, commands_);
    run_commands();
  }
  if (collecting_ != nullptr && collecting_->outbox().has_collected()) send_collected(std::nullopt);
}

void Pager::pump() {
  for (int round = 0; round < rounds_max; ++round) {
    while (!events_.empty()) {
      feeding_.swap(events_);
      for (const Event& event : feeding_) feed(event);
      feeding_.clear();
    }
    if (!device_touched_ && !loads_touched_) return;
    if (std::exchange(device_touched_, false)) poll_device();
    if (std::exchange(loads_touched_, false)) poll_loads();
  }
}

bool Pager::stopped() const { return stopped_ && (!news_.waiting() || now_ >= *stop_by_); }

bool Pager::wants_turn() const {
  return !stopped_ && (!events_.empty() || device_touched_ || loads_touched_ || loads_->wants_poll());
}

void Pager::poll_device() {
  std::array<CreateDone, 64> done;
  std::size_t count = 0;
  do {
    count = owner_.reap(done);
    for (std::size_t index = 0; index < count; ++index) {
      const CreateDone& one = done[index];
      const PageKey page{.table = TableId{static_cast<std::uint32_t>(one.tag >> 32)},
                         .index = static_cast<std::uint32_t>(one.tag)};
      if (one.result != CreateResult::created) {
        later(NotCreated{.page = page, .reason = creation_failure(one.result)});
      } else if (!writer_.attach(one.frame)) {
        owner_.destroy(one.frame);
        later(NotCreated{.page = page, .reason = FailureKind::device_unhealthy});
      } else {
        later(Created{.page = page, .frame = one.frame});
      }
    }
  } while (count == done.size());

  hear_of_losses();
  const Result<FenceId> reached = writer_.reached();
  take_filled();
  if (!reached) {
    const bool for_good = reached.error().code == Errc::closed;
    change_condition(for_good ? DeviceCondition::quarantined : DeviceCondition::recovering);
    if (!std::exchange(writer_lost_, true)) {
      stats_.writer_losses.fetch_add(1, std::memory_order_relaxed);
      lose_writer();
    }
    return;
  }
  writer_lost_ = false;
  change_condition(DeviceCondition::ready);
  if (*reached == reached_) return;
  reached_ = *reached;
  loads_touched_ = true;
  while (!copy_fences_.empty() && copy_fences_.front().fence <= reached_) {
    const CopyFence& fence = copy_fences_.front();
    const bool copied = !writer_.take_copy_failure(fence.fence);
    later(FenceReached{.page = fence.page, .generation = fence.generation, .ok = copied});
    copy_fences_.pop_front();
  }
  start_copies();
}

void Pager::poll_loads() {
  loads_->poll(now_, reached_, loaded_);
  for (const Loaded& loaded : loaded_) {
    if (!loaded.ok && loaded.reason != FailureKind::cancelled) {
      PagerDecision failed = decision(PagerDecision::Kind::io_error, loaded.page);
      failed.reason = loaded.reason;
      failed.detail = loads_->failure_of(loaded.page.table);
      news_.log(std::move(failed));
    }
    if (!stopping() && scrubber_.holds_back(now_, loaded)) continue;
    later(loaded);
  }
  loaded_.clear();
  take_filled();
}

void Pager::start_copies() {
  while (!waiting_copies_.empty()) {
    const CopyFrame& copy = waiting_copies_.front();
    const Result<FenceId> fence = writer_.copy_frame(copy.to, copy.from);
    if (fence) {
      copy_fences_.push_back({.fence = *fence, .page = copy.page, .generation = copy.generation});
      device_touched_ = true;
    } else if (fence.error().code == Errc::busy) {
      return;
    } else {
      later(FenceReached{.page = copy.page, .generation = copy.generation, .ok = false});
    }
    waiting_copies_.pop_front();
  }
  if (device_touched_) writer_.flush();
}

// Each load and each copy fails by itself, once nothing writes to its frame any more; the core then tries again once.
// One WriterLost for all would give frames back that reads still fill.
void Pager::lose_writer() {
  loads_->writer_lost();
  loads_touched_ = true;
  for (const CopyFence& fence : copy_fences_) {
    later(FenceReached{.page = fence.page, .generation = fence.generation, .ok = false});
  }
  copy_fences_.clear();
  start_copies();  // They fail now.
}

// The device may have been given up before it was gone, and may work again by now: each loss is told by itself.
void Pager::hear_of_losses() {
  const std::uint64_t losses = owner_.contents_losses();
  if (std::exchange(contents_losses_, losses) == losses) return;
  stats_.condition.store(DeviceCondition::quarantined, std::memory_order_relaxed);
  news_.answer(ConditionChanged{.condition = DeviceCondition::quarantined, .contents_lost = true});
}

void Pager::change_condition(DeviceCondition condition) {
  if (stats_.condition.exchange(condition, std::memory_order_relaxed) == condition) return;
  news_.answer(ConditionChanged{.condition = condition});
}

void Pager::run_timers() {
  const std::optional<Nanoseconds> due = core_.next_deadline();
  if (due && *due <= now_) feed(Tick{});
  const std::optional<Nanoseconds> read_due = loads_->next_deadline();
  if (read_due && *read_due <= now_) loads_touched_ = true;
  if (retry_at_ && *retry_at_ <= now_) {
    retry_at_.reset();
    for (const auto& [id, session] : sessions_) {
      if (session->gone || session->outbox().state() != Outbox::State::later) continue;
      session->outbox().flush();
      after_sending(*session);
    }
  }
  if (next_figures_ <= now_) {
    next_figures_ = now_ + options_.figures_period;
    stats_.pinned_bytes = pinned_.advance(sessions_, options_.pinned_pages) * device_.frame_bytes;
    stats_.frames_ready = owner_.ready_frames();
    // Those in use when they were found stay until they are not.
    for (const auto& [page, generation] : scrubber_.corrupt())
      later(EvictPage{.page = page, .generation = generation});
  }
  scrub();
}

std::optional<Nanoseconds> Pager::next_deadline() const {
  std::optional<Nanoseconds> next = core_.next_deadline();
  const auto sooner = [&next](std::optional<Nanoseconds> other) {
    if (other && (!next || *other < *next)) next = other;
  };
  sooner(loads_->next_deadline());
  sooner(retry_at_);
  sooner(stop_by_);
  if (news_.waiting()) sooner(now_ + options_.retry_period);
  if (published_ != turns_) sooner(now_);  // For a caller that does not linger, or no longer.
  if (const Nanoseconds due = scrubber_.due(now_); due != never) sooner(due);
  // Without clients only the frames that are ready change by themselves.
  sooner(sessions_.empty() ? next_figures_ + 9 * options_.figures_period : next_figures_);
  return next;
}

void Pager::settle(Nanoseconds now) {
  for (const Nanoseconds received : unsettled_) {
    const std::uint64_t nanoseconds =
        static_cast<std::uint64_t>(std::max(now - received, Nanoseconds{0}).count());
    const int bucket =
        std::min(static_cast<int>(std::bit_width(nanoseconds / 1000)), PagerStats::latency_buckets - 1);
    stats_.fault_latency[static_cast<std::size_t>(bucket)].fetch_add(1, std::memory_order_relaxed);
    stats_.fault_latency_sum_ns.fetch_add(nanoseconds, std::memory_order_relaxed);
  }
  unsettled_.clear();
}

void Pager::finish_closed_tables() {
  if (!tables_closing_) return;
  tables_closing_ = false;
  for (auto at = tables_.begin(); at != tables_.end();) {
    const OpenedTable& table = at->second;
    if (!table.closing) {
      ++at;
    } else if (loads_->busy(at->first)) {
      tables_closing_ = true;
      ++at;
    } else {
      loads_->close(at->first);
      pages_opened_ -= table.pages;
      if (raw(table.close_request) != 0) news_.answer(RequestDone{.request = table.close_request});
      at = tables_.erase(at);
    }
  }
}

void Pager::publish() {
  constexpr auto relaxed = std::memory_order_relaxed;
  const PagerCounts counts = core_.counts();
  const std::uint64_t frame = device_.frame_bytes;
  stats_.budget_bytes.store(counts.budget_frames * frame, relaxed);
  stats_.used_bytes.store(counts.used_frames * frame, relaxed);
  stats_.resident_bytes.store(counts.resident_frames * frame, relaxed);
  stats_.private_bytes.store(counts.private_frames * frame, relaxed);
  stats_.stuck_bytes.store(counts.stuck_frames * frame, relaxed);
  const std::uint64_t leaving = counts.used_frames - counts.resident_frames - counts.arriving_frames;
  const auto pages = [this](Residency residency) -> PagerStats::Figure& {
    return stats_.pages[static_cast<std::size_t>(residency)];
  };
  pages(Residency::absent).store(pages_opened_ - counts.used_frames, relaxed);
  pages(Residency::loading).store(counts.arriving_frames, relaxed);
  pages(Residency::resident).store(counts.resident_frames, relaxed);
  pages(Residency::evicting).store(leaving, relaxed);
  stats_.minor_faults.store(counts.minor_grants, relaxed);
  stats_.major_faults.store(counts.major_faults, relaxed);
  stats_.refaults.store(counts.refaults, relaxed);
  const ReadCounters& reads = loads_->counters();
  stats_.direct_bytes.store(reads.direct_bytes, relaxed);
  stats_.cached_bytes.store(reads.cached_bytes, relaxed);
  stats_.short_reads.store(reads.short_reads, relaxed);
  stats_.read_errors.store(reads.io_errors + reads.unexpected_ends, relaxed);
  const PinnedRing& ring = loads_->ring();
  stats_.slots_free.store(ring.free_slots(), relaxed);
  stats_.slots_busy.store(ring.slots() - ring.free_slots(), relaxed);
  stats_.sessions.store(sessions_.size(), relaxed);
  stats_.tables.store(tables_.size(), relaxed);
  published_at_ = now_;
  published_ = turns_;
  stats_.turns_published.store(published_, std::memory_order_release);
}

}  // namespace penstock
