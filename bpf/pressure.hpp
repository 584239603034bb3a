// SPDX-License-Identifier: Apache-2.0
// Pressure stall information (PSI): how long tasks waited for memory.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "bpf/warnings.hpp"
#include "dataplane/base/clock.hpp"
#include "dataplane/base/result.hpp"

namespace penstock {

struct PressureLine {
  std::uint32_t percent_of_10_s = 0;  // In hundredths of a percent.
  Nanoseconds total{};                // Since boot, or since the cgroup was made.
  friend bool operator==(const PressureLine&, const PressureLine&) = default;
};

struct Pressure {
  std::optional<PressureLine> some;  // At least one task waited.
  std::optional<PressureLine>
      full;  // All that could run did. Some kernels have no such line for some resources.
  friend bool operator==(const Pressure&, const Pressure&) = default;
};

// Errc::corrupt when there is not a single line that can be understood.
Result<Pressure> parse_pressure(std::string_view text);

// Asks again and again, and says once what is wrong, for each cause; and once that it works again.
class PressureSource {
 public:
  // What it answers is valid until the next call.
  using Read = std::function<Result<std::string_view>()>;

  // `name` is for the warnings. The file may be there and yet not be readable: PSI can be switched off.
  PressureSource(std::string name, Read read) : name_(std::move(name)), read_(std::move(read)) {}
  // The file at `path`, a literal, below `directory`, which stays open as long as this object.
  static PressureSource of_file(int directory, const char* path, std::string name);

  // Nothing while there is no answer: "no pressure" is another thing.
  std::optional<Pressure> read(Warnings& warnings);
  bool available() const { return available_; }  // As of the last read().

 private:
  std::string name_;
  Read read_;
  bool available_ = false;
  bool failed_ = false;
};

}  // namespace penstock
