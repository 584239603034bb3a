// SPDX-License-Identifier: Apache-2.0
// Puts the exporters to work over the service's figures.
#pragma once

#include <memory>
#include <string>

#include <boost/asio/io_context.hpp>

#include "dataplane/base/failure.hpp"
#include "dataplane/pager/host_tier.hpp"
#include "dataplane/pager/stats.hpp"
#include "service/config/config.hpp"
#include "service/control/service.hpp"

namespace penstock {

class Metrics {
 public:
  // Binds at once: FailureKind::already_running or configuration with address and port in the text.
  static Outcome<std::unique_ptr<Metrics>> open(boost::asio::io_context& context, const MetricsConfig& config,
                                                Service& service);
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  // Of the device that was added to the service last. Both outlive the metrics.
  void add_device(const std::string& id, const PagerStats& stats, const Service& service, bool has_usage);
  // The tier that GPUs use.
  void set_tier(std::shared_ptr<const HostTier> tier);
  void set_ready(bool ready);

 private:
  struct Parts;
  explicit Metrics(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace penstock
