// SPDX-License-Identifier: Apache-2.0
#include "tests/support/scripted_gpu_driver.hpp"

#include <fcntl.h>

#include "dataplane/base/check.hpp"
#include "dataplane/base/units.hpp"

namespace penstock {
namespace {

GpuDescription describe() {
  GpuDescription gpu;
  gpu.identity.id = "cuda-00000000";
  gpu.total_bytes = 8 * gib;
  gpu.granularity_bytes = 2 * mib;
  gpu.has_vmm = true;
  return gpu;
}

}  // namespace

ScriptedGpuDriver::ScriptedGpuDriver() : description_(describe()) {}

void ScriptedGpuDriver::refuse(const std::string& call, std::int32_t native, int times) {
  const std::lock_guard lock(mutex_);
  refusals_[call] = {.native = native, .times = times};
}

void ScriptedGpuDriver::hang(const std::string& call) {
  const std::lock_guard lock(mutex_);
  hanging_ = call;
}

void ScriptedGpuDriver::let_go() {
  {
    const std::lock_guard lock(mutex_);
    hanging_.clear();
  }
  released_.notify_all();
}

bool ScriptedGpuDriver::is_hanging() const {
  const std::lock_guard lock(mutex_);
  return in_hang_ > 0;
}

std::uint64_t ScriptedGpuDriver::live_handles() const {
  const std::lock_guard lock(mutex_);
  return live_.size();
}

int ScriptedGpuDriver::calls(const std::string& call) const {
  const std::lock_guard lock(mutex_);
  const auto found = calls_.find(call);
  return found == calls_.end() ? 0 : found->second;
}

bool ScriptedGpuDriver::was_called_by(std::thread::id thread) const {
  const std::lock_guard lock(mutex_);
  return callers_.contains(thread);
}

std::int32_t ScriptedGpuDriver::enter(const std::string& call) {
  std::unique_lock lock(mutex_);
  ++calls_[call];
  callers_.insert(std::this_thread::get_id());
  if (hanging_ == call) {
    ++in_hang_;
    released_.wait(lock, [&] { return hanging_ != call; });
    --in_hang_;
  }
  Refusal& refusal = refusals_[call];
  if (refusal.times == 0) return 0;
  --refusal.times;
  return refusal.native;
}

DriverCode ScriptedGpuDriver::create(std::uint64_t, MemoryHandle& made) {
  const DriverCode code{enter("create"), "create"};
  if (!code.ok()) return code;
  const std::lock_guard lock(mutex_);
  made = MemoryHandle{++last_};
  live_.insert(made);
  return code;
}

DriverCode ScriptedGpuDriver::export_fd(MemoryHandle handle, UniqueFd& exported) {
  DriverCode code{enter("export"), "export"};
  if (!code.ok()) return code;
  const std::lock_guard lock(mutex_);
  CHECK(live_.contains(handle));
  UniqueFd fd(::open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!fd) return {800, "export"};
  exported = std::move(fd);
  return code;
}

DriverCode ScriptedGpuDriver::release(MemoryHandle handle) {
  const DriverCode code{enter("release"), "release"};
  if (!code.ok()) return code;
  const std::lock_guard lock(mutex_);
  CHECK(live_.erase(handle) == 1);
  return code;
}

}  // namespace penstock
