// SPDX-License-Identifier: Apache-2.0
// Collects everybody's counters when it is asked. Takes no lock and waits for nobody: what it reads are single words that
// dataplane threads store, and snapshots that functions of its own thread return.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>

#include "dataplane/device/usage/usage_stats.hpp"
#include "dataplane/pager/stats.hpp"
#include "service/control/kernel_stats.hpp"
#include "service/policy/stats.hpp"

namespace penstock {

// A function that returns nothing says that its source is unavailable now: its series are left out and
// collector_success is 0. One that is not set is left out altogether.
struct DeviceSource {
  std::string id;                     // "host", "cuda-xxxxxxxx"
  const PagerStats* pager = nullptr;  // Outlives the collector; null while the device is unavailable.
  std::function<std::optional<LedgerFigures>()> ledger{};
  // What others use of a GPU. Nothing while no reading has been made of it.
  std::function<std::optional<GpuUsageStats>()> usage{};
};

struct MetricSources {
  std::string version;
  std::function<std::optional<ServiceStats>()> service{};
  std::function<std::optional<std::string>()> reader_backend{};  // "uring", "uring-unregistered", "pread"
  std::vector<DeviceSource> devices{};
  std::function<std::shared_ptr<const KernelStats>()> kernel{};
  std::function<std::optional<TierStats>()> tier{};  // Set where a GPU uses the pinned host tier.
};

// Used by one thread, the one that its sources' functions belong to.
class Collector : public prometheus::Collectable {
 public:
  explicit Collector(MetricSources sources) : sources_(std::move(sources)) {}

  void add_device(DeviceSource device) { sources_.devices.push_back(std::move(device)); }
  void set_tier(std::function<std::optional<TierStats>()> tier) { sources_.tier = std::move(tier); }
  std::vector<prometheus::MetricFamily> Collect() const override;
  // The page of /metrics.
  std::string page() const;

 private:
  MetricSources sources_;
};

// More checkpoints than this share one label.
inline constexpr std::size_t checkpoint_labels_max = 256;
// 12 hex digits.
bool is_checkpoint_id(std::string_view id);

}  // namespace penstock
