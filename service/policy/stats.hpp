// SPDX-License-Identifier: Apache-2.0
// Figures of the service as plain values: counted where things happen, copied out as one snapshot, shown by
// exporters.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "dataplane/base/clock.hpp"
#include "dataplane/base/failure.hpp"
#include "service/policy/pressure.hpp"

namespace penstock {

inline constexpr std::size_t failure_kinds = static_cast<std::size_t>(FailureKind::internal) + 1;

// How long something took. Bucket i counts spans of less than 2^i milliseconds that are in no bucket before
// it; the last one counts the rest.
struct WaitHistogram {
  static constexpr std::size_t buckets = 20;
  std::array<std::uint64_t, buckets> counts{};
  std::uint64_t sum_ns = 0;

  constexpr void add(Nanoseconds span) {
    const std::uint64_t ns = span.count() < 0 ? 0 : static_cast<std::uint64_t>(span.count());
    const std::size_t bucket = static_cast<std::size_t>(std::bit_width(ns / 1'000'000));
    counts[bucket < buckets ? bucket : buckets - 1] += 1;
    sum_ns += ns;
  }
};

// Totals of one ledger; they never fall.
struct AdmissionCounts {
  std::uint64_t admitted_full = 0;
  std::uint64_t admitted_partial = 0;  // Less work than wanted, not less than the minimum.
  std::uint64_t queued = 0;            // Demands that could not be answered at once, whatever came of them.
  std::uint64_t cancelled = 0;         // Left before their answer, by themselves or with their session.
  std::array<std::uint64_t, failure_kinds> refused{};
  WaitHistogram wait;  // From demand to admission or refusal.
};

// One device's account.
struct LedgerFigures {
  std::uint64_t capacity_bytes = 0;
  std::uint64_t headroom_bytes = 0;
  std::optional<std::uint64_t> foreign_bytes{};  // Without a value: not known now.
  std::uint64_t counted_foreign_bytes = 0;       // That, or what is assumed without it.
  std::uint64_t allowed_bytes = 0;               // What pressure leaves of the capacity.
  std::uint64_t booked_weights_bytes = 0;
  std::uint64_t booked_work_bytes = 0;
  std::uint64_t free_bytes = 0;          // What the next demand could book.
  std::uint64_t pager_budget_bytes = 0;  // What pages may use now.
  std::uint64_t waiting = 0;             // Demands.
  std::uint64_t grants = 0;
  AdmissionCounts admissions;

  std::uint64_t booked_bytes() const { return booked_weights_bytes + booked_work_bytes; }
};

// How a session ended; the last one is for those that never began.
enum class SessionOutcome : std::uint8_t { closed, disconnected, violated, killed, refused };
inline constexpr std::size_t session_outcomes = 5;

// Where bytes of a checkpoint lie.
enum class CheckpointPlace : std::uint8_t { device, locked_host, page_cache };

struct CheckpointFigures {
  std::string id;  // 12 hex digits.
  CheckpointPlace place = CheckpointPlace::device;
  std::uint64_t bytes = 0;
};

// What the governor saw and decided last.
struct GovernorFigures {
  PressureLevel level = PressureLevel::calm;
  std::uint64_t room_bytes = 0;  // Below the tightest limit.
  std::uint64_t low_bytes = 0, high_bytes = 0;
  std::uint64_t frames_bytes = 0;      // What pages in host memory may use.
  std::uint64_t excess_bytes = 0;      // Missing, and in the hands of clients.
  std::uint64_t falls = 0, rises = 0;  // Of that budget.
};

struct ServiceStats {
  std::uint64_t clients = 0;
  std::array<std::uint64_t, session_outcomes> sessions{};  // By SessionOutcome.
  std::uint64_t locked_host_bytes = 0;                     // Host buffers and the pinned host tier.
  std::uint64_t locked_host_budget_bytes = 0;
  std::optional<GovernorFigures> pressure;     // Nothing before the governor's first look.
  std::vector<CheckpointFigures> checkpoints;  // A place that is not measured is left out.
};

}  // namespace penstock
