// SPDX-License-Identifier: Apache-2.0
#include "bpf/pressure_edge.hpp"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

namespace penstock {

Result<PressureEdge> PressureEdge::open(int directory, const char* path, const PressureBound& bound) {
  PressureEdge edge = TRY(polled(directory, path, bound));
  edge.arm(directory, path);
  // What grew before it was armed can't be the trigger's reason.
  edge.last_ = edge.total().value_or(edge.last_);
  return edge;
}

Result<PressureEdge> PressureEdge::polled(int directory, const char* path, const PressureBound& bound) {
  PressureEdge edge(directory, path, bound);
  edge.why_ = "not asked for";
  const std::optional<Nanoseconds> now = edge.total();
  if (!now) return Error{Errc::not_found, 0, "read a pressure file"};
  edge.last_ = *now;
  return edge;
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
  why_.clear();
}

std::optional<Nanoseconds> PressureEdge::total_of(const std::optional<Pressure>& pressure) const {
  if (!pressure) return std::nullopt;
  const std::optional<PressureLine>& line =
      bound_.kind == PressureKind::some ? pressure->some : pressure->full;
  return line ? std::optional(line->total) : std::nullopt;
}

std::optional<Pressure> PressureEdge::look() {
  const std::optional<Pressure> pressure = read();
  const std::optional<Nanoseconds> now = total_of(pressure);
  if (!now) return std::nullopt;
  const bool passed = *now - last_ >= bound_.stall;
  if (passed || !armed()) last_ = *now;
  if (!passed && armed()) ++false_events_;
  return passed ? pressure : std::nullopt;
}

}  // namespace penstock
