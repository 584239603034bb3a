// SPDX-License-Identifier: Apache-2.0
#include "service/metrics_setup.hpp"

#include <optional>
#include <utility>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "dataplane/base/version.hpp"
#include "exporters/collector.hpp"
#include "exporters/http_endpoint.hpp"

namespace penstock {

struct Metrics::Parts {
  explicit Parts(MetricSources sources) : collector(std::move(sources)) {}

  Collector collector;
  bool ready = false;
  std::unique_ptr<HttpEndpoint> endpoint;  // Last: its routes use the collector.
};

Metrics::Metrics(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Metrics::~Metrics() = default;

Outcome<std::unique_ptr<Metrics>> Metrics::open(boost::asio::io_context& context, const MetricsConfig& config,
                                                Service& service) {
  MetricSources sources;
  sources.version = std::string(project_version);
  sources.service = [&service]() -> std::optional<ServiceStats> { return service.state().stats(); };
  sources.reader_backend = [&service]() -> std::optional<std::string> {
    if (service.state().reader.backend.empty()) return std::nullopt;
    return service.state().reader.backend;
  };
  sources.kernel = [&service] { return service.state().kernel_stats(); };
  auto parts = std::make_unique<Parts>(std::move(sources));
  if (config.listen) {
    Parts& own = *parts;
    auto routes = health_routes({.metrics_page = [&own] { return own.collector.page(); },
                                 .not_ready = [&own]() -> std::optional<std::string> {
                                   if (own.ready) return std::nullopt;
                                   return "starting or stopping";
                                 }});
    auto endpoint = HttpEndpoint::open(
        context, {.address = config.listen->address, .port = config.listen->port, .limits = {}},
        std::move(routes));
    if (!endpoint) {
      Failure failure = std::move(endpoint.error());
      failure.message = "metrics.listen: " + failure.message;
      return tl::unexpected<Failure>(std::move(failure));
    }
    parts->endpoint = std::move(*endpoint);
    service.state().metrics_address = parts->endpoint->address();
    spdlog::info("metrics on http://{}/metrics", parts->endpoint->address());
  }
  return std::unique_ptr<Metrics>(new Metrics(std::move(parts)));
}

void Metrics::add_device(const std::string& id, const PagerStats& stats, const Service& service,
                         bool has_usage) {
  const ServiceState& state = service.state();
  const std::size_t position = state.admissions.size() - 1;
  DeviceSource source{.id = id, .pager = &stats};
  source.ledger = [&state, position]() -> std::optional<LedgerFigures> {
    return state.admissions[position]->figures();
  };
  if (has_usage) source.usage = [&state, position] { return state.usage[position]; };
  parts_->collector.add_device(std::move(source));
}

void Metrics::set_tier(std::shared_ptr<const HostTier> tier) {
  parts_->collector.set_tier([tier = std::move(tier)] { return std::optional(tier->stats()); });
}

void Metrics::set_ready(bool ready) { parts_->ready = ready; }

}  // namespace penstock
