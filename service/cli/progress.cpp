// SPDX-License-Identifier: Apache-2.0
#include "service/cli/progress.hpp"

#include <cstdio>
#include <string>

#include <fmt/format.h>
#include <unistd.h>

#include "dataplane/base/units.hpp"

namespace penstock {
namespace {

constexpr std::uint64_t width = 30;
constexpr Nanoseconds interval = std::chrono::milliseconds(100);

}  // namespace

Progress::Progress(std::uint64_t bytes_total)
    : bytes_total_(bytes_total), is_shown_(::isatty(STDERR_FILENO) == 1), started_(monotonic_now()) {}

Progress::~Progress() {
  if (is_shown_) fmt::print(stderr, "\r\x1b[K");
}

void Progress::show(std::uint64_t bytes_done) {
  if (!is_shown_ || bytes_total_ == 0) return;
  const Nanoseconds now = monotonic_now();
  if (now < next_) return;
  next_ = now + interval;
  const double share = static_cast<double>(bytes_done) / static_cast<double>(bytes_total_);
  const double seconds = std::chrono::duration<double>(now - started_).count();
  const auto rate = static_cast<std::uint64_t>(seconds > 0 ? static_cast<double>(bytes_done) / seconds : 0);
  const std::string bar(static_cast<std::size_t>(share * width), '#');
  fmt::print(stderr, "\r[{:<30}] {:3.0f} %  {} of {}, {}/s\x1b[K", bar, share * 100, format_bytes(bytes_done),
             format_bytes(bytes_total_), format_bytes(rate));
  std::fflush(stderr);
}

}  // namespace penstock
