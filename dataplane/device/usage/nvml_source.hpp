// SPDX-License-Identifier: Apache-2.0
// NvmlSource: NVIDIA's GPUs and their parts by way of libnvidia-ml.so.1.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "dataplane/device/usage/device_usage.hpp"
#include "dataplane/device/usage/host_memory.hpp"
#include "dataplane/device/usage/nvml_table.hpp"

namespace penstock {

class NvmlSource final : public UsageSource {
 public:
  // `proc`: where meminfo is, for devices that share the machine's memory.
  explicit NvmlSource(std::string library = "libnvidia-ml.so.1", std::string proc = "/proc");
  ~NvmlSource() override;

  std::string_view name() const override { return "nvml"; }
  // Devices by index, each followed by its parts; then GPUs that were there before and are not any more, as lost.
  Result<std::vector<DeviceUsage>> read() override;

 private:
  Result<> open();
  void close();
  DeviceUsage describe(nvml_device_t device) const;
  void read_memory(nvml_device_t device, DeviceUsage& usage) const;
  void read_processes(nvml_device_t device, DeviceUsage& usage);
  nvml_return_t list_processes(NvmlProcessList list, nvml_device_t device,
                               std::vector<ProcessUsage>& processes);
  void add_parts(nvml_device_t whole, std::vector<DeviceUsage>& devices);

  const std::string library_, proc_;
  std::optional<NvmlTable> nvml_;  // While it is initialised.
  std::vector<std::byte> buffer_;  // For lists of processes.
  KnownGpus known_;
};

}  // namespace penstock
