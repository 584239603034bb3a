// SPDX-License-Identifier: Apache-2.0
#include "service/metrics_setup.hpp"

namespace penstock {
struct Metrics::Parts {};
Metrics::Metrics(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Metrics::~Metrics() = default;
Outcome<std::unique_ptr<Metrics>> Metrics::open(boost::asio::io_context&, const MetricsConfig&, Service&) {
  return std::unique_ptr<Metrics>(new Metrics(std::make_unique<Parts>()));
}
void Metrics::add_device(const std::string&, const PagerStats&) {}
void Metrics::set_ready(bool) {}
}  // namespace penstock
