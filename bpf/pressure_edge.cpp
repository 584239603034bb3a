// SPDX-License-Identifier: Apache-2.0
#include "bpf/pressure_edge.hpp"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

namespace penstock {

Result<PressureEdge> PressureEdge::open(int directory, const char* path, const PressureBound& bound) {
  PressureEdge edge(directory, path, bound);
  edge.arm(directory, path);
  TRY(edge.begin());
  return edge;
}

Result<PressureEdge> PressureEdge::polled(int directory, const char* path, const PressureBound& bound) {
  PressureEdge edge(directory, path, bound);
  edge.why_ = "not asked for";
  TRY(edge.begin());
  return edge;
}

// After arming: what grew before can't have been the trigger's reason.
Result<> PressureEdge::begin() {
  const std::optional<Nanoseconds> now = total();
  if (!now) return Error{Errc::not_found, 0, "read a pressure file"};
  last_ = *now;
  return {};
}

void PressureEdge::arm(int directory, const char* path) {
  UniqueFd trigger(::openat(directory, path, O_RDWR | O_NONBLOCK | O_CLOEXEC));
  if (!trigger) {
    why_ = fmt::format("open for writing: {}", std::strerror(errno));
    return;
  }
  const auto microseconds = [](Nanoseconds time) {
    return std::chrono::duration_cast<std::chrono::microseconds>(time).count();
  };
  const std::string text = fmt::format("{} {} {}", bound_.kind == PressureKind::some ? "some" : "full",
                                       microseconds(bound_.stall), microseconds(bound_.window));
  // With its final 0: the kernel overwrites the last byte, which would be a digit.
  if (::write(trigger.get(), text.c_str(), text.size() + 1) != static_cast<ssize_t>(text.size() + 1)) {
    why_ = fmt::format("arm \"{}\": {}", text, std::strerror(errno));
    return;
  }
  trigger_ = std::move(trigger);
}

std::optional<Nanoseconds> PressureEdge::total() {
  const std::optional<Pressure> pressure = source_.read(unheard_);
  if (!pressure) return std::nullopt;
  const std::optional<PressureLine>& line =
      bound_.kind == PressureKind::some ? pressure->some : pressure->full;
  return line ? std::optional(line->total) : std::nullopt;
}

bool PressureEdge::look() {
  const std::optional<Nanoseconds> now = total();
  if (!now) return false;
  const bool passed = *now - last_ >= bound_.stall;
  if (passed || !armed()) last_ = *now;
  if (!passed && armed()) ++false_events_;
  return passed;
}

}  // namespace penstock
