// SPDX-License-Identifier: Apache-2.0
#include "service/client/program_context.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "dataplane/device/gpu/program_streams.hpp"
#include "dataplane/device/gpu/vendor.hpp"

namespace penstock {
namespace {

struct Contexts {
  std::mutex mutex;
  std::map<std::string, std::unique_ptr<DriverContext>> by_id;
  std::vector<std::unique_ptr<DriverContext>> ended;
};

Outcome<std::unique_ptr<DriverContext>> open_context(GpuVendor vendor, const std::string& id) {
  // Of two versions that are installed the one that the program uses.
  OpenedVendor opened = open_vendor(vendor, DriverLoading::already_there);
  if (opened.report.state == VendorState::absent) opened = open_vendor(vendor, DriverLoading::load);
  const auto gpu = std::find_if(opened.gpus.begin(), opened.gpus.end(), [&](const auto& one) {
    return id.empty() || one->description().identity.id == id;
  });
  if (gpu == opened.gpus.end()) {
    const VendorReport& report = opened.report;
    return fail(FailureKind::unsupported,
                opened.gpus.empty() ? fmt::format("the {} driver: {}{}{}", gpu_vendor_name(vendor),
                                                  vendor_state_name(report.state),
                                                  report.detail.empty() ? "" : ": ", report.detail)
                                    : fmt::format("this process does not see the GPU {}", id),
                opened.gpus.empty() ? report.remedy
                                    : "CUDA_VISIBLE_DEVICES, HIP_VISIBLE_DEVICES or its container hide it");
  }
  std::unique_ptr<DriverContext> context;
  const DriverCode code = (*gpu)->open_context(context);
  if (code.ok()) return context;
  const bool short_of_memory = classify(code) == DriverClass::pressure;
  return fail(short_of_memory ? FailureKind::exhausted : FailureKind::device_unhealthy,
              fmt::format("no context on {}: {} answered {} ({})", id, code.call,
                          driver_code_name(code.native), code.native));
}

DriverCode enter_alive(DriverContext& context) {
  const DriverCode code = context.enter();
  DeviceMemoryFigures figures;
  return code.ok() ? context.memory_figures(figures) : code;  // It can be entered, and be over all the same.
}

Outcome<void> enter(GpuVendor vendor, const std::string& id) {
  // Never destroyed: at the process's end the driver may be gone before it.
  static Contexts& contexts = *std::make_unique<Contexts>().release();
  const std::lock_guard lock(contexts.mutex);
  const std::string key = id.empty() ? std::string(gpu_vendor_name(vendor)) : id;
  auto found = contexts.by_id.find(key);
  if (found != contexts.by_id.end() && classify(enter_alive(*found->second)) == DriverClass::context_dead) {
    // The program has reset the device. The claim to its primary context has gone with that: it is not given up once more.
    contexts.ended.push_back(std::move(found->second));
    contexts.by_id.erase(found);
    found = contexts.by_id.end();
  }
  if (found == contexts.by_id.end()) {
    auto opened = open_context(vendor, id);
    if (!opened) return tl::unexpected(std::move(opened.error()));
    found = contexts.by_id.emplace(key, std::move(*opened)).first;
  }
  const DriverCode code = enter_alive(*found->second);
  if (code.ok()) return {};
  return fail(FailureKind::device_unhealthy,
              fmt::format("the context of {} can't be used: {} answered {} ({})", id, code.call,
                          driver_code_name(code.native), code.native));
}

}  // namespace

Outcome<void> enter_program_context(GpuVendor vendor, const std::string& id) {
  const auto before = open_program_streams(vendor);
  std::optional<OwnErrors> errors;
  if (before) errors.emplace(**before);
  auto entered = enter(vendor, id);
  if (before) return entered;
  // The program has made no call yet.
  if (const auto loaded = open_program_streams(vendor)) (*loaded)->clear_last_error();
  return entered;
}

}  // namespace penstock
