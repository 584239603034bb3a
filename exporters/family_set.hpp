// SPDX-License-Identifier: Apache-2.0
// Samples, sorted into the catalog's families.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>
#include <vector>

#include <prometheus/metric_family.h>

#include "exporters/catalog.hpp"

namespace penstock {

struct LabelPair {
  std::string_view name;   // A literal.
  std::string_view value;  // Any bytes.
};

class FamilySet {
 public:
  using Labels = std::initializer_list<LabelPair>;

  // Counter or gauge, as the catalog says.
  void add(Family family, Labels labels, std::uint64_t value);
  // The same for a family of seconds.
  void add_seconds(Family family, Labels labels, std::uint64_t ns);
  // `counts[i]` samples lie below `bounds[i]` seconds and in no bucket before it; the last one has no bound.
  // REQUIRES: counts.size() == bounds.size() + 1.
  void add_histogram(Family family, Labels labels, std::span<const std::uint64_t> counts,
                     std::span<const double> bounds, std::uint64_t sum_ns);

  // In the catalog's order, without the empty ones. Ends the set.
  std::vector<prometheus::MetricFamily> take();

 private:
  prometheus::ClientMetric& next(Family family, Labels labels);

  std::array<std::vector<prometheus::ClientMetric>, families> samples_;
};

}  // namespace penstock
