// SPDX-License-Identifier: Apache-2.0
// PressureEdge: notices when tasks waited for memory longer than a bound within a window. By the kernel's trigger where
// one can be armed, by looking now and then otherwise. One thread.
#pragma once

#include <optional>
#include <string>

#include "bpf/pressure.hpp"
#include "dataplane/base/unique_fd.hpp"

namespace penstock {

enum class PressureKind : std::uint8_t { some, full };

struct PressureBound {
  PressureKind kind = PressureKind::some;
  Nanoseconds stall = std::chrono::milliseconds(150);
  Nanoseconds window =
      std::chrono::seconds(2);  // Half a second to ten. Without CAP_SYS_RESOURCE two, four, ...
};

class PressureEdge {
 public:
  // A pressure file at `path`, a literal, below `directory`, which stays open as long as this object. Fails when the
  // file can't be read.
  static Result<PressureEdge> open(int directory, const char* path, const PressureBound& bound);

  // The same without a trigger.
  static Result<PressureEdge> polled(int directory, const char* path, const PressureBound& bound);

  // POLLPRI on it: look. -1: no trigger, look every window. Closed by the kernel's cgroup removal: POLLERR.
  int fd() const { return trigger_.get(); }
  bool armed() const { return static_cast<bool>(trigger_); }
  const std::string& why() const { return why_; }  // Why it isn't armed.
  Nanoseconds window() const { return bound_.window; }

  // The pressure now, if the bound was passed since the last call that said so (armed), or since the last call (not
  // armed). The kernel's first event may come for nothing where the opener lacks CAP_SYS_RESOURCE.
  std::optional<Pressure> look();
  // The pressure now, without a look; nothing while there is no answer.
  std::optional<Pressure> read() { return source_.read(unheard_); }
  std::uint64_t false_events() const { return false_events_; }

 private:
  PressureEdge(int directory, const char* path, const PressureBound& bound)
      : bound_(bound), source_(PressureSource::of_file(directory, path, path)) {}
  void arm(int directory, const char* path);
  std::optional<Nanoseconds> total_of(const std::optional<Pressure>& pressure) const;
  std::optional<Nanoseconds> total() { return total_of(read()); }

  PressureBound bound_;
  PressureSource source_;
  Warnings unheard_;  // Whoever exports the pressure warns of it.
  UniqueFd trigger_;
  std::string why_;
  Nanoseconds last_{};
  std::uint64_t false_events_ = 0;
};

}  // namespace penstock
