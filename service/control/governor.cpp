// SPDX-License-Identifier: Apache-2.0
#include "service/control/governor.hpp"

#include <algorithm>

#include <fcntl.h>
#include <spdlog/spdlog.h>

#include "dataplane/base/units.hpp"
#include "service/control/session.hpp"
#include "service/policy/amount.hpp"

namespace penstock {
namespace {

wire::PressureLevel wire_level(PressureLevel level) {
  switch (level) {
    case PressureLevel::calm: return wire::PressureLevel::calm;
    case PressureLevel::some: return wire::PressureLevel::some;
    case PressureLevel::full: return wire::PressureLevel::full;
  }
  return wire::PressureLevel::calm;
}

std::vector<FrameShare> shares_of(const std::vector<HostFrames>& frames, const ServiceState& state) {
  std::vector<FrameShare> shares;
  for (const HostFrames& one : frames) {
    const DeviceLimits& limits = state.devices[one.position]->description().limits;
    shares.push_back({.capacity_bytes = limits.capacity_bytes});
  }
  return shares;
}

Governor::Options with_frames(Governor::Options options, const std::vector<HostFrames>& frames,
                              const std::vector<FrameShare>& shares) {
  options.policy.frames_max_bytes = options.policy.ahead_bytes = 0;
  for (const FrameShare& one : shares) options.policy.frames_max_bytes += one.capacity_bytes;
  for (const HostFrames& one : frames) options.policy.ahead_bytes += one.ahead_bytes;
  return options;
}

}  // namespace

Governor::Governor(boost::asio::io_context& context, ServiceState& state, HeadroomSource& headroom,
                   const EventFd& alarm, std::vector<HostFrames> frames, Options options)
    : state_(state),
      headroom_(headroom),
      alarm_(alarm),
      frames_(std::move(frames)),
      shares_(shares_of(frames_, state)),
      options_(with_frames(options, frames_, shares_)),
      policy_(options_.policy),
      spare_page_cache_(state.opener,
                        [&state](const Checkpoint& checkpoint, std::uint64_t bytes) {
                          state.decide("drop_page_cache", checkpoint.id, bytes, "resident on a device", {});
                        }),
      source_places_(state),
      timer_(context),
      wake_(context, ::fcntl(alarm.fd(), F_DUPFD_CLOEXEC, 0)) {}

Governor::~Governor() = default;

void Governor::start() {
  await_alarm();
  look_and_arm();
}

void Governor::await_alarm() {
  wake_.async_wait(boost::asio::posix::descriptor_base::wait_read,
                   [this, life = life_.watch()](const boost::system::error_code& error) {
                     if (error || life.over()) return;
                     alarm_.consume();
                     // Within a reading's age a neighbour takes tens of MiB.
                     headroom_.read_anew();
                     look_and_arm();
                     await_alarm();
                   });
}

void Governor::look_and_arm() {
  if (state_.closing) return;
  timer_.expires_at(std::chrono::steady_clock::time_point(look(monotonic_now())));
  timer_.async_wait([this, life = life_.watch()](const boost::system::error_code& error) {
    if (!error && !life.over()) look_and_arm();
  });
}

Nanoseconds Governor::look(Nanoseconds now) {
  const PressureAnswer before = policy_.answer();
  const PressureSample seen = sample(now);
  const PressureAnswer& answer = policy_.step(seen);
  act(answer);
  tell(seen, answer, before);
  source_places_.look(now);
  state_.drop_unlinked();
  if (answer.look_again) {
    headroom_.read_anew();
    return now + options_.period_least;
  }
  const std::uint64_t left = seen.room_bytes - std::min(seen.room_bytes, answer.low_bytes);
  const Nanoseconds until_low(static_cast<std::int64_t>(static_cast<double>(left) * 1e9 /
                                                        static_cast<double>(options_.taken_a_second_most)));
  return now + std::clamp(until_low, options_.period_least, options_.period);
}

PressureSample Governor::sample(Nanoseconds now) {
  PressureSample seen{.at = now};
  // Before the room: frames that go in between are counted twice rather than not at all.
  for (std::size_t i = 0; i < frames_.size(); ++i) {
    const std::size_t position = frames_[i].position;
    const PagerStats& stats = state_.devices[position]->stats();
    shares_[i].frame_bytes = frames_[i].frame_bytes();
    shares_[i].kept_bytes = stats.pinned_bytes.load() + stats.stuck_bytes.load() +
                            state_.admissions[position]->figures().booked_work_bytes;
    seen.frame_bytes += shares_[i].frame_bytes;
    // What a device keeps beyond its capacity is no other one's budget.
    seen.kept_bytes += std::min(shares_[i].kept_bytes, shares_[i].capacity_bytes);
  }
  const std::uint64_t promised = state_.host_buffers ? state_.host_buffers->missing_bytes() : 0;
  seen.room_bytes = saturating_subtract(headroom_.headroom_bytes(), promised);
  seen.limit_bytes = headroom_.limit_bytes();
  seen.limit_source = headroom_.limit_source();
  if (state_.host_buffers) {
    seen.buffer_bytes = state_.host_buffers->bytes();
    if (const HostTier* const tier = state_.host_buffers->tier()) seen.copy_bytes = tier->stats().used_bytes;
  }
  if (state_.kernel != nullptr) {
    const StallsSeen stalls = state_.kernel->stalls();
    seen.own = stalls.own;
    seen.above = stalls.above;
    seen.machine = stalls.machine;
    seen.bounds_passed = stalls.bounds_passed;
    seen.bounds_passed_above = stalls.bounds_passed_above;
  }
  return seen;
}

// What gives back comes first. Page cache, the first of D12's order, is room already: nothing falls for what it could
// give, and its pages are dropped once this is done, in tell().
void Governor::act(const PressureAnswer& answer) {
  for (const HostFrames& one : frames_) {
    if (one.set_making_ahead) one.set_making_ahead(answer.make_ahead);
  }
  share_frames(answer.frames_bytes, shares_);
  const bool whole = answer.frames_bytes == options_.policy.frames_max_bytes;
  for (std::size_t i = 0; i < frames_.size(); ++i) {
    state_.admissions[frames_[i].position]->set_allowed(whole ? UINT64_MAX : shares_[i].allowed_bytes);
  }
  if (state_.host_buffers) state_.host_buffers->set_allowed(answer.buffers_bytes, answer.copies_bytes);
}

void Governor::tell(const PressureSample& sample, const PressureAnswer& answer,
                    const PressureAnswer& before) {
  state_.pressure = GovernorFigures{.level = answer.level,
                                    .room_bytes = sample.room_bytes,
                                    .low_bytes = answer.low_bytes,
                                    .high_bytes = answer.high_bytes,
                                    .frames_bytes = answer.frames_bytes,
                                    .excess_bytes = answer.excess_bytes,
                                    .falls = state_.pressure ? state_.pressure->falls : 0,
                                    .rises = state_.pressure ? state_.pressure->rises : 0};
  const bool changed = answer.level != before.level;
  if (answer.reason == PressureReason::recovered) ++state_.pressure->rises;
  if (answer.reason == PressureReason::room || answer.reason == PressureReason::stall)
    ++state_.pressure->falls;
  const auto note = [&](std::string_view kind, std::uint64_t bytes, std::string_view reason) {
    state_.decide(kind, "host", bytes, reason,
                  {{"budget_bytes", answer.frames_bytes},
                   {"room_bytes", sample.room_bytes},
                   {"low_bytes", answer.low_bytes},
                   {"high_bytes", answer.high_bytes},
                   {"frame_bytes", sample.frame_bytes},
                   {"kept_bytes", sample.kept_bytes},
                   {"buffer_bytes", sample.buffer_bytes},
                   {"excess_bytes", answer.excess_bytes}});
  };
  if (answer.reason != PressureReason::none) {
    const auto [less, more] = std::minmax(answer.frames_bytes, before.frames_bytes);
    note("budget", more - less, pressure_reason_names[static_cast<std::size_t>(answer.reason)]);
  }
  if (changed) {
    const std::string_view name = pressure_level_names[static_cast<std::size_t>(answer.level)];
    note("pressure", answer.excess_bytes, name);
    spdlog::info("memory pressure: {}, {} left below the tightest limit, pages may use {}", name,
                 format_bytes(sample.room_bytes), format_bytes(answer.frames_bytes));
  }
  tell_clients(sample.at, answer, changed);
  if (!answer.drop_page_cache) return;
  const std::shared_ptr<const KernelStats> kernel = state_.kernel_stats();
  spare_page_cache_.drop(sample.at, state_.tables, [&](const Checkpoint& checkpoint) {
    return ServiceState::page_cache_bytes(checkpoint, kernel.get()).value_or(0) > 0;
  });
}

// Each hears of its share, by what it holds.
void Governor::tell_clients(Nanoseconds now, const PressureAnswer& answer, bool changed) {
  const bool remind = answer.excess_bytes > 0 && now >= remind_at_;
  if (!changed && !remind) return;
  remind_at_ = now + options_.remind;
  const auto held_by = [this](const Session& session) {
    return session.pinned_bytes() + (state_.host_buffers ? state_.host_buffers->bytes_of(session.id()) : 0);
  };
  std::uint64_t held = 0;
  for (const auto& [id, session] : state_.sessions) held += held_by(*session);
  for (const auto& [id, session] : state_.sessions) {
    const double share = held > 0 ? static_cast<double>(held_by(*session)) / static_cast<double>(held) : 0.0;
    const double excess = static_cast<double>(std::min(answer.excess_bytes, held)) * share;
    session->announce(wire::Pressure{.level = wire_level(answer.level),
                                     .device = std::nullopt,
                                     .excess_bytes = static_cast<std::uint64_t>(excess)});
  }
}

}  // namespace penstock
