// SPDX-License-Identifier: Apache-2.0
// Metric families as a page in Prometheus' text format 0.0.4.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <prometheus/metric_family.h>

namespace penstock {

inline constexpr std::string_view text_format_type = "text/plain; version=0.0.4; charset=utf-8";

// Independent of locales. Escapes what has to be; label values are to be valid UTF-8 (label_text).
std::string to_text_format(const std::vector<prometheus::MetricFamily>& families);

}  // namespace penstock
