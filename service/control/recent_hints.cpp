// SPDX-License-Identifier: Apache-2.0
#include "service/control/recent_hints.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "dataplane/base/quote.hpp"

namespace penstock {

void RecentHints::add(const Hint& hint) {
  if (hint.kind == Hint::Kind::reclaimed) return;
  const std::lock_guard lock(mutex_);
  latest_[added_++ % kept] = hint;
  if (hint.kind != Hint::Kind::oom_kill) return;
  if (kills_waiting_ < kept) {
    kills_[kills_waiting_++] = hint;
  } else {
    ++kills_untold_;
  }
}

std::vector<Hint> RecentHints::latest() const {
  const std::lock_guard lock(mutex_);
  std::vector<Hint> all;
  for (std::uint64_t i = added_ - std::min<std::uint64_t>(added_, kept); i < added_; ++i) {
    all.push_back(latest_[i % kept]);
  }
  return all;
}

std::vector<std::string> RecentHints::take_kill_lines(Nanoseconds now) {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> lines;
  if (now - period_began_ >= lines_period) {
    period_began_ = now;
    lines_in_period_ = 0;
  }
  for (std::size_t i = 0; i < kills_waiting_; ++i) {
    if (lines_in_period_ >= lines_max) {
      ++kills_untold_;
      continue;
    }
    ++lines_in_period_;
    lines.push_back(fmt::format("oom_kill process={} command=\"{}\" cgroup={}", kills_[i].process,
                                command_of(kills_[i]), kills_[i].cgroup));
  }
  kills_waiting_ = 0;
  if (kills_untold_ > 0 && lines_in_period_ < lines_max) {
    ++lines_in_period_;
    lines.push_back(fmt::format("oom_kill not_logged={}", std::exchange(kills_untold_, 0)));
  }
  return lines;
}

std::string command_of(const Hint& hint) {
  const auto end = std::ranges::find(hint.command, '\0');
  const std::string quoted =
      quote({hint.command.data(), static_cast<std::size_t>(end - hint.command.begin())});
  return quoted.substr(1, quoted.size() - 2);
}

}  // namespace penstock
