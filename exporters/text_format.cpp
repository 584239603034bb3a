// SPDX-License-Identifier: Apache-2.0
#include "exporters/text_format.hpp"

#include <charconv>
#include <cmath>

namespace penstock {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricType;

std::string_view type_name(MetricType type) {
  switch (type) {
    case MetricType::Counter: return "counter";
    case MetricType::Gauge: return "gauge";
    case MetricType::Summary: return "summary";
    case MetricType::Histogram: return "histogram";
    default: return "untyped";
  }
}

template <class Number>
void append_number(std::string& out, Number value) {
  char text[32];
  const auto [end, error] = std::to_chars(text, text + sizeof(text), value);
  out.append(text, end);
}

void append_value(std::string& out, double value) {
  if (std::isnan(value)) {
    out += "NaN";
  } else if (std::isinf(value)) {
    out += value > 0 ? "+Inf" : "-Inf";
  } else {
    append_number(out, value);
  }
}

void append_escaped(std::string& out, std::string_view text, bool quotes) {
  for (const char c : text) {
    if (c == '\\') {
      out += "\\\\";
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '"' && quotes) {
      out += "\\\"";
    } else {
      out += c;
    }
  }
}

class Page {
 public:
  void add(const prometheus::MetricFamily& family) {
    if (family.metric.empty()) return;
    out_ += "# HELP " + family.name + " ";
    append_escaped(out_, family.help, false);
    out_ += "\n# TYPE " + family.name + " ";
    out_ += type_name(family.type);
    out_ += '\n';
    for (const ClientMetric& metric : family.metric) add(family, metric);
  }
  std::string take() { return std::move(out_); }

 private:
  void add(const prometheus::MetricFamily& family, const ClientMetric& metric) {
    switch (family.type) {
      case MetricType::Counter: return sample(family.name, "", metric, {}, metric.counter.value);
      case MetricType::Gauge: return sample(family.name, "", metric, {}, metric.gauge.value);
      case MetricType::Histogram: return add_histogram(family.name, metric);
      case MetricType::Summary: return add_summary(family.name, metric);
      default: return sample(family.name, "", metric, {}, metric.untyped.value);
    }
  }

  void add_histogram(const std::string& name, const ClientMetric& metric) {
    const ClientMetric::Histogram& histogram = metric.histogram;
    bool ended = false;
    for (const ClientMetric::Bucket& bucket : histogram.bucket) {
      ended = std::isinf(bucket.upper_bound);
      count(name, "_bucket", metric, {"le", bucket.upper_bound}, bucket.cumulative_count);
    }
    if (!ended) count(name, "_bucket", metric, {"le", INFINITY}, histogram.sample_count);
    sample(name, "_sum", metric, {}, histogram.sample_sum);
    count(name, "_count", metric, {}, histogram.sample_count);
  }

  void add_summary(const std::string& name, const ClientMetric& metric) {
    for (const ClientMetric::Quantile& quantile : metric.summary.quantile)
      sample(name, "", metric, {"quantile", quantile.quantile}, quantile.value);
    sample(name, "_sum", metric, {}, metric.summary.sample_sum);
    count(name, "_count", metric, {}, metric.summary.sample_count);
  }

  // The label that a histogram or a summary adds to its own.
  struct Bound {
    std::string_view name;
    double value = 0;
  };

  void head(std::string_view name, std::string_view suffix, const ClientMetric& metric, const Bound& bound) {
    out_ += name;
    out_ += suffix;
    char separator = '{';
    const auto label = [&](std::string_view label_name) {
      out_ += separator;
      separator = ',';
      out_ += label_name;
      out_ += "=\"";
    };
    for (const ClientMetric::Label& own : metric.label) {
      label(own.name);
      append_escaped(out_, own.value, true);
      out_ += '"';
    }
    if (!bound.name.empty()) {
      label(bound.name);
      append_value(out_, bound.value);
      out_ += '"';
    }
    if (separator == ',') out_ += '}';
    out_ += ' ';
  }

  void sample(std::string_view name, std::string_view suffix, const ClientMetric& metric, const Bound& bound,
              double value) {
    head(name, suffix, metric, bound);
    append_value(out_, value);
    tail(metric);
  }

  // Counts stay whole numbers to the last digit.
  void count(std::string_view name, std::string_view suffix, const ClientMetric& metric, const Bound& bound,
             std::uint64_t value) {
    head(name, suffix, metric, bound);
    append_number(out_, value);
    tail(metric);
  }

  void tail(const ClientMetric& metric) {
    if (metric.timestamp_ms != 0) {
      out_ += ' ';
      append_number(out_, metric.timestamp_ms);
    }
    out_ += '\n';
  }

  std::string out_;
};

}  // namespace

std::string to_text_format(const std::vector<prometheus::MetricFamily>& families) {
  Page page;
  for (const prometheus::MetricFamily& family : families) page.add(family);
  return page.take();
}

}  // namespace penstock
