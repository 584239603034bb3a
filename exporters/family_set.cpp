// SPDX-License-Identifier: Apache-2.0
#include "exporters/family_set.hpp"

#include "dataplane/base/check.hpp"
#include "exporters/label_text.hpp"

namespace penstock {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

ClientMetric& FamilySet::next(Family family, Labels labels) {
  ClientMetric& metric = samples_[static_cast<std::size_t>(family)].emplace_back();
  for (const LabelPair& label : labels)
    metric.label.push_back({.name = std::string(label.name), .value = label_text(label.value)});
  return metric;
}

void FamilySet::add(Family family, Labels labels, std::uint64_t value) {
  const MetricType type = entry_of(family).type;
  CHECK(type == MetricType::Counter || type == MetricType::Gauge);
  ClientMetric& metric = next(family, labels);
  (type == MetricType::Counter ? metric.counter.value : metric.gauge.value) = static_cast<double>(value);
}

void FamilySet::add_seconds(Family family, Labels labels, std::uint64_t ns) {
  CHECK(entry_of(family).type == MetricType::Counter);
  next(family, labels).counter.value = static_cast<double>(ns) / 1e9;
}

void FamilySet::add_histogram(Family family, Labels labels, std::span<const std::uint64_t> counts,
                              std::span<const double> bounds, std::uint64_t sum_ns) {
  CHECK(entry_of(family).type == MetricType::Histogram && counts.size() == bounds.size() + 1);
  ClientMetric::Histogram& histogram = next(family, labels).histogram;
  std::uint64_t total = 0;
  for (std::size_t index = 0; index < bounds.size(); ++index) {
    total += counts[index];
    histogram.bucket.push_back({.cumulative_count = total, .upper_bound = bounds[index]});
  }
  histogram.sample_count = total + counts.back();
  histogram.sample_sum = static_cast<double>(sum_ns) / 1e9;
}

std::vector<MetricFamily> FamilySet::take() {
  std::vector<MetricFamily> out;
  for (std::size_t index = 0; index < families; ++index) {
    if (samples_[index].empty()) continue;
    const FamilyEntry& entry = entry_of(static_cast<Family>(index));
    MetricFamily& family = out.emplace_back();
    family.name = std::string(metric_prefix) + std::string(entry.name);
    family.help = entry.help;
    family.type = entry.type;
    family.metric = std::move(samples_[index]);
  }
  return out;
}

}  // namespace penstock
