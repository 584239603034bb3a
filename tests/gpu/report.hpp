// SPDX-License-Identifier: Apache-2.0
// What one experiment found: figures by name, and what is otherwise than the service relies on.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace penstock::gpu_check {

enum class State : std::uint8_t { done, contradicts, skipped };

class Report {
 public:
  void figure(std::string_view name, double value);
  void figure(std::string_view name, std::string_view text);
  void figure(std::string_view name, const char* text) { figure(name, std::string_view(text)); }
  void figure(std::string_view name, bool value);
  void figure(std::string_view name, std::integral auto value) { add(name, std::to_string(value)); }

  // What the service relies on; `what` says it as a sentence.
  bool expect(bool holds, std::string_view what);
  // Nothing of it can be run here; `why` names what is missing.
  void skip(std::string_view why);
  // A part of it can't; the others go on.
  void skip_part(std::string_view part, std::string_view why);

  State state() const;
  // One JSON object, in one line.
  std::string to_json(std::string_view id, std::string_view name, double seconds) const;

 private:
  void add(std::string_view name, std::string json);

  std::vector<std::string> figures_;  // "name":value
  std::vector<std::string> contradictions_, skipped_parts_;
  std::string skipped_;
};

// The middle one, and the worst of 99 %. REQUIRES: not empty.
struct Spread {
  double p50 = 0, p99 = 0;
};
Spread spread_of(std::vector<double> values);

}  // namespace penstock::gpu_check
