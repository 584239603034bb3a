// SPDX-License-Identifier: Apache-2.0
// Summaries of repeated measurements.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace penstock::bench {

// The lower middle of an even number. REQUIRES: not empty.
inline double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[(values.size() - 1) / 2];
}
inline double least(const std::vector<double>& values) { return *std::ranges::min_element(values); }
inline double greatest(const std::vector<double>& values) { return *std::ranges::max_element(values); }

}  // namespace penstock::bench
