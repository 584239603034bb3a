// SPDX-License-Identifier: Apache-2.0
#include "service/policy/pressure.hpp"

#include <algorithm>
#include <utility>

#include "dataplane/base/check.hpp"
#include "service/policy/amount.hpp"

namespace penstock {
namespace {

bool is_share(Nanoseconds part, Nanoseconds whole, std::int64_t percent) {
  return part.count() >= whole.count() / 100 * percent;
}

}  // namespace

PressurePolicy::PressurePolicy(const PressureOptions& options)
    : options_(options), pause_(options.pause_least) {
  CHECK(options.line_share > 0 && options.step_share > 0 && options.rise_time > Nanoseconds{0});
  answer_.frames_bytes = options.frames_max_bytes;
  answer_.copies_bytes = options.copies_max_bytes;
  answer_.buffers_bytes = options.buffers_max_bytes;
}

const PressureAnswer& PressurePolicy::step(const PressureSample& sample) {
  answer_.reason = PressureReason::none;
  answer_.look_again = !is_confirmed(sample);
  if (answer_.look_again) {
    leave_as_it_was(sample);
    return answer_;
  }
  draw_lines(sample);
  if (!std::exchange(started_, true)) {
    level_since_ = rose_at_ = sample.at;
    fell_at_ = sample.at - options_.pause_most;
    bounds_passed_ = sample.bounds_passed;
    bounds_passed_above_ = sample.bounds_passed_above;
  }
  const bool stalls = stalled(sample);
  set_level(sample, stalls);
  if (sample.room_bytes < answer_.low_bytes) {
    fall(sample, until_room(sample), PressureReason::room);
  } else if (stalls) {
    fall(sample, by_a_step(sample), PressureReason::stall);
  } else if (answer_.level == PressureLevel::calm) {
    rise(sample);
  }
  share(sample);
  return answer_;
}

// A launcher moves the service, or somebody writes a limit and then the right one: what lacks below a limit that did not
// bind before counts once a second look in a row lacks, too.
bool PressurePolicy::is_confirmed(const PressureSample& sample) {
  const bool is_short = sample.room_bytes < low_line(sample);
  const bool known = !started_ || sample.limit_source == limit_source_;
  const bool again = std::exchange(was_short_, is_short);
  if (is_short && !known && !again) return false;
  limit_source_ = sample.limit_source;
  return true;
}

// But for what is in use, which no budget takes away.
void PressurePolicy::leave_as_it_was(const PressureSample& sample) {
  answer_.frames_bytes =
      std::max(answer_.frames_bytes, std::min(sample.kept_bytes, options_.frames_max_bytes));
  answer_.buffers_bytes =
      std::max(sample.buffer_bytes, std::min(answer_.buffers_bytes, options_.buffers_max_bytes));
}

std::uint64_t PressurePolicy::low_line(const PressureSample& sample) const {
  return std::clamp(sample.limit_bytes / options_.line_share, options_.low_least_bytes,
                    options_.low_most_bytes);
}

void PressurePolicy::draw_lines(const PressureSample& sample) {
  answer_.low_bytes = low_line(sample);
  answer_.high_bytes = answer_.low_bytes + answer_.low_bytes / 2;
}

// Whether tasks have waited for memory for another time that is long enough.
bool PressurePolicy::stalled(const PressureSample& sample) {
  // Elsewhere, beside the service's cgroup as on the machine, somebody may thrash within a limit of their own.
  const bool others_count = sample.room_bytes < 2 * answer_.high_bytes;
  const auto has_grown = [](std::uint64_t& before, std::uint64_t now) {
    return now > std::exchange(before, std::max(before, now));
  };
  const bool passed_here = has_grown(bounds_passed_, sample.bounds_passed);
  const bool passed_above = has_grown(bounds_passed_above_, sample.bounds_passed_above) && others_count;
  const bool passed = passed_here || passed_above;
  const auto judge = [&](StallWindow& window, const std::optional<StallReading>& reading, bool& full) {
    const auto waited = window.advance(reading, options_.stall_window);
    // What was waited for until a bound was passed is answered with that.
    if (passed) window.restart(reading);
    if (!waited) {
      full = full && !passed && reading.has_value();
      return false;
    }
    full = is_share(waited->totals.full, waited->elapsed, options_.full_percent);
    return full || is_share(waited->totals.some, waited->elapsed, options_.some_percent);
  };
  const bool own = judge(own_, sample.own, own_full_);
  const bool above = judge(above_, sample.above, above_full_);
  const bool machine = judge(machine_, sample.machine, machine_full_);
  full_stalls_ = own_full_ || (others_count && (above_full_ || machine_full_));
  return passed || own || (others_count && (above || machine));
}

void PressurePolicy::set_level(const PressureSample& sample, bool stalls) {
  PressureLevel wanted = PressureLevel::calm;
  if (sample.room_bytes < answer_.low_bytes / 2 || full_stalls_) {
    wanted = PressureLevel::full;
  } else if (sample.room_bytes < answer_.low_bytes || stalls) {
    wanted = PressureLevel::some;
  } else if (sample.room_bytes < answer_.high_bytes) {
    wanted = std::min(answer_.level, PressureLevel::some);
  }
  if (wanted >= answer_.level) {
    answer_.level = wanted;
    level_since_ = sample.at;
  } else if (sample.at - level_since_ >= options_.calm_after) {
    answer_.level = static_cast<PressureLevel>(static_cast<int>(answer_.level) - 1);
    level_since_ = sample.at;
  }
}

// What lacks to the high line, less than is used now: of the copies first, then of the frames, which are in use by
// clients in part.
PressurePolicy::Fallen PressurePolicy::until_room(const PressureSample& sample) const {
  const std::uint64_t bytes = answer_.high_bytes - sample.room_bytes;
  const std::uint64_t of_frames = saturating_subtract(bytes, sample.copy_bytes);
  return {.copies_bytes = saturating_subtract(sample.copy_bytes, bytes),
          .frames_bytes = saturating_subtract(sample.frame_bytes, of_frames)};
}

// There is room: what may be used and is not stays as it is, but for the step. Copies that are there go first.
PressurePolicy::Fallen PressurePolicy::by_a_step(const PressureSample& sample) const {
  // Saturating: without a bound on copies they may be as many as bytes can be counted.
  const std::uint64_t step =
      saturating_add(options_.frames_max_bytes, options_.copies_max_bytes) / options_.step_share;
  const std::uint64_t of_copies = std::min(sample.copy_bytes, step);
  const std::uint64_t unused = std::min(answer_.copies_bytes, sample.limit_bytes);
  return {.copies_bytes = of_copies > 0 ? sample.copy_bytes - of_copies : saturating_subtract(unused, step),
          .frames_bytes =
              saturating_subtract(std::max(sample.frame_bytes, answer_.frames_bytes), step - of_copies)};
}

void PressurePolicy::fall(const PressureSample& sample, Fallen to, PressureReason reason) {
  const std::uint64_t copies = std::min(answer_.copies_bytes, to.copies_bytes);
  const std::uint64_t frames = std::min(answer_.frames_bytes, to.frames_bytes);
  const std::uint64_t kept = std::min(sample.kept_bytes, answer_.frames_bytes);
  const bool soon = std::exchange(rose_since_fall_, false) && sample.at - rose_at_ < 4 * pause_;
  if (soon) {
    pause_ = std::min(2 * pause_, options_.pause_most);
  } else if (sample.at - fell_at_ >= options_.pause_most) {
    pause_ = options_.pause_least;
  }
  fell_at_ = sample.at;
  if (copies == answer_.copies_bytes && std::max(frames, kept) == answer_.frames_bytes) return;
  answer_.copies_bytes = copies;
  answer_.frames_bytes = std::max(frames, kept);
  answer_.reason = reason;
}

void PressurePolicy::rise(const PressureSample& sample) {
  const bool frames_lack = answer_.frames_bytes < options_.frames_max_bytes;
  if (!frames_lack && answer_.copies_bytes >= options_.copies_max_bytes) return;
  const Nanoseconds begin = std::max(rose_at_, fell_at_ + pause_);
  if (sample.at <= begin) return;
  const std::uint64_t most = frames_lack ? options_.frames_max_bytes : options_.copies_max_bytes;
  const double part =
      std::chrono::duration<double>(sample.at - begin) / std::chrono::duration<double>(options_.rise_time);
  const auto share = static_cast<std::uint64_t>(std::min(part, 1.0) * static_cast<double>(most));
  std::uint64_t& budget = frames_lack ? answer_.frames_bytes : answer_.copies_bytes;
  if (share < std::min(options_.rise_step_bytes, most - budget)) return;
  rose_at_ = sample.at;
  // What rises later must find its room as well: no rise may lead to a fall.
  const std::uint64_t spare = saturating_subtract(sample.room_bytes, answer_.high_bytes);
  const std::uint64_t used = frames_lack ? sample.frame_bytes : sample.copy_bytes;
  const std::uint64_t bound = std::min(most, saturating_add(used, spare));
  const std::uint64_t risen = std::min(bound, budget + share);
  if (risen <= budget || (risen < most && risen - budget < options_.rise_step_bytes)) return;
  budget = risen;
  rose_since_fall_ = true;
  answer_.reason = PressureReason::recovered;
}

void PressurePolicy::share(const PressureSample& sample) {
  const std::uint64_t spare = saturating_subtract(sample.room_bytes, answer_.high_bytes);
  // Clients' pins may have grown beyond a budget that fell earlier; nobody takes those away.
  answer_.frames_bytes =
      std::max(answer_.frames_bytes, std::min(sample.kept_bytes, options_.frames_max_bytes));
  answer_.buffers_bytes = std::max(
      sample.buffer_bytes, std::min(options_.buffers_max_bytes, saturating_add(sample.buffer_bytes, spare)));
  const bool calm = answer_.level == PressureLevel::calm;
  const bool whole = answer_.frames_bytes == options_.frames_max_bytes;
  // They come on top of the budget.
  answer_.make_ahead = calm && whole && (answer_.make_ahead || spare >= options_.ahead_bytes);
  answer_.drop_page_cache = !calm;
  const std::uint64_t missing = saturating_subtract(answer_.high_bytes, sample.room_bytes);
  const std::uint64_t ours =
      saturating_add(sample.copy_bytes, saturating_subtract(sample.frame_bytes, sample.kept_bytes));
  answer_.excess_bytes = calm ? 0 : saturating_subtract(missing, ours);
}

void PressurePolicy::verify(const PressureSample& last) const {
  CHECK(answer_.frames_bytes <= options_.frames_max_bytes);
  CHECK(answer_.frames_bytes >= std::min(last.kept_bytes, options_.frames_max_bytes));
  CHECK(answer_.copies_bytes <= options_.copies_max_bytes);
  CHECK(answer_.buffers_bytes >= last.buffer_bytes);
  CHECK(answer_.buffers_bytes <= std::max(options_.buffers_max_bytes, last.buffer_bytes));
  CHECK(answer_.low_bytes < answer_.high_bytes);
  CHECK(last.room_bytes >= answer_.low_bytes || answer_.level != PressureLevel::calm || answer_.look_again);
}

}  // namespace penstock
