// SPDX-License-Identifier: Apache-2.0
// A node that is played for the policy of pressure: frames go and come at some speed, others take what they take.
#pragma once

#include <algorithm>
#include <vector>

#include "service/policy/amount.hpp"
#include "service/policy/pressure.hpp"

namespace penstock::test {

inline constexpr std::uint64_t limit = 4 * gib;  // Lines: low 512 MiB, high 768 MiB.
inline constexpr std::uint64_t capacity = 2 * gib;

struct PlayedNode {
  explicit PlayedNode(const PressureOptions& options = {.frames_max_bytes = capacity,
                                                        .buffers_max_bytes = gib})
      : policy(options) {}

  std::uint64_t room() const {
    return saturating_subtract(limit, others + sample.frame_bytes + sample.copy_bytes + sample.buffer_bytes);
  }

  // What was waited for so far, as it is read now.
  StallReading waited(Nanoseconds some, Nanoseconds full, std::uint64_t source = 0) const {
    return {.at = sample.at, .source = source, .totals = {.some = some, .full = full}};
  }
  // Looks, and lets frames follow their budget for `span`: clients always want more.
  const PressureAnswer& pass(Nanoseconds span) {
    sample.at += span;
    const PressureAnswer& answer = look();
    const std::uint64_t target = std::max(answer.frames_bytes, sample.kept_bytes);
    const auto most = static_cast<std::uint64_t>(span.count()) * speed / 1'000'000'000;
    if (sample.frame_bytes > target) {
      sample.frame_bytes -= std::min(most, sample.frame_bytes - target);
    } else {
      sample.frame_bytes += std::min({most, target - sample.frame_bytes, room()});
    }
    sample.copy_bytes = std::min(sample.copy_bytes, answer.copies_bytes);
    return answer;
  }
  const PressureAnswer& look() {
    sample.limit_bytes = limit;
    sample.room_bytes = room();
    const PressureAnswer& answer = policy.step(sample);
    policy.verify(sample);
    budgets.push_back(answer.frames_bytes);
    return answer;
  }
  // Those changes of the budget that go the other way than the one before.
  int turns() const {
    int turns = 0, way = 0;
    for (std::size_t i = 1; i < budgets.size(); ++i) {
      if (budgets[i] == budgets[i - 1]) continue;
      const int now = budgets[i] > budgets[i - 1] ? 1 : -1;
      turns += way != 0 && now != way;
      way = now;
    }
    return turns;
  }

  PressurePolicy policy;
  PressureSample sample{.at = std::chrono::seconds(1000), .frame_bytes = capacity};
  std::uint64_t others = 0;
  std::uint64_t speed = 2 * gib;  // A second, of frames that come or go.
  std::vector<std::uint64_t> budgets;
};

}  // namespace penstock::test
