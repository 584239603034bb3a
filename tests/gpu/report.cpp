// SPDX-License-Identifier: Apache-2.0
#include "tests/gpu/report.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace penstock::gpu_check {
namespace {

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return out + '"';
}

std::string list(const std::vector<std::string>& texts) {
  std::vector<std::string> all;
  for (const std::string& text : texts) all.push_back(quoted(text));
  return fmt::format("[{}]", fmt::join(all, ","));
}

}  // namespace

void Report::add(std::string_view name, std::string json) {
  figures_.push_back(fmt::format("{}:{}", quoted(name), json));
}

// JSON has no infinity.
void Report::figure(std::string_view name, double value) {
  add(name, std::isfinite(value) ? fmt::format("{:.6g}", value) : "null");
}
void Report::figure(std::string_view name, std::string_view text) { add(name, quoted(text)); }
void Report::figure(std::string_view name, bool value) { add(name, value ? "true" : "false"); }

bool Report::expect(bool holds, std::string_view what) {
  if (!holds) contradictions_.emplace_back(what);
  return holds;
}

void Report::skip(std::string_view why) { skipped_ = why; }

void Report::skip_part(std::string_view part, std::string_view why) {
  skipped_parts_.push_back(fmt::format("{}: {}", part, why));
}

State Report::state() const {
  if (!contradictions_.empty()) return State::contradicts;
  return skipped_.empty() ? State::done : State::skipped;
}

std::string Report::to_json(std::string_view id, std::string_view name, double seconds) const {
  constexpr const char* names[] = {"done", "contradicts", "skipped"};
  return fmt::format(
      R"({{"id":{},"name":{},"state":"{}","seconds":{:.3f},"why":{},"contradictions":{},"skipped_parts":{},"figures":{{{}}}}})",
      quoted(id), quoted(name), names[static_cast<int>(state())], seconds, quoted(skipped_),
      list(contradictions_), list(skipped_parts_), fmt::join(figures_, ","));
}

Spread spread_of(std::vector<double> values) {
  std::ranges::sort(values);
  const auto at = [&](double part) {
    return values[static_cast<std::size_t>(part * static_cast<double>(values.size() - 1))];
  };
  return {.p50 = at(0.5), .p99 = at(0.99)};
}

}  // namespace penstock::gpu_check
