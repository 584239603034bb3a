// SPDX-License-Identifier: Apache-2.0
// A libnvidia-ml.so.1 without a driver. Arguments that the real one refuses are refused.
#include "tests/fakes/nvml/fake_nvml.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include <poll.h>

#include "tests/fakes/engine/callers.hpp"
#include "tests/fakes/nvml/nvml_script.hpp"

#define EXPORTED extern "C" __attribute__((visibility("default")))

namespace penstock::test {
namespace {

constexpr nvml_return_t invalid_argument = 2;

// One GPU, for programs that only find the library.
std::vector<FakeNvmlDevice> first_devices() {
  FakeNvmlDevice device;
  device.uuid = "GPU-00112233-4455-6677-8899-aabbccddeeff";
  device.bus = 1;
  const char* const bytes = std::getenv("PENSTOCK_FAKE_DEVICE_BYTES");
  device.total_bytes = bytes != nullptr ? std::strtoull(bytes, nullptr, 10) : 8ull << 30;
  return {device};
}

FakeNvml& state() {
  // Never destroyed: a thread may hang in here for good.
  static FakeNvml* const fake = [] {
    auto* made = new FakeNvml;
    made->devices = first_devices();
    return made;
  }();
  return *fake;
}

FakeNvmlDevice& as_fake(nvml_device_t device) { return *reinterpret_cast<FakeNvmlDevice*>(device); }
nvml_device_t as_handle(FakeNvmlDevice& device) { return reinterpret_cast<nvml_device_t>(&device); }

// Holds the state for one call, after it has hung as long as it is told to.
class Call {
 public:
  explicit Call(const char* name = __builtin_FUNCTION()) : lock_(state().mutex) {
    static const fake::Callers callers(fake::usage_callers);
    callers.check(name);
    FakeNvml& fake = state();
    ++fake.calls;
    while (script_says_hang()) ::poll(nullptr, 0, 10);
    if (!fake.hangs) return;
    ++fake.hanging;
    fake.changed.notify_all();
    fake.changed.wait(lock_, [&fake] { return !fake.hangs; });
    --fake.hanging;
  }
  FakeNvml* operator->() const { return &state(); }
  bool is_initialised() const { return state().initialised > 0; }

 private:
  std::unique_lock<std::mutex> lock_;
};

nvml_return_t list(nvml_device_t device, std::uint32_t which, std::uint32_t* count, nvml_process* processes) {
  const Call call;
  if (!call.is_initialised()) return nvml_uninitialized;
  const FakeNvmlDevice& fake = as_fake(device);
  if (fake.process_answers[which] != nvml_success) return fake.process_answers[which];
  const std::vector<nvml_process>& all = fake.processes[which];
  const std::uint32_t capacity = *count;
  *count = static_cast<std::uint32_t>(all.size());
  if (capacity < all.size()) return nvml_insufficient_size;
  std::ranges::copy(all, processes);
  return nvml_success;
}

}  // namespace
}  // namespace penstock::test

using namespace penstock::test;

EXPORTED FakeNvml* fake_nvml() { return &state(); }

EXPORTED nvml_return_t nvmlInit_v2() {
  const Call call;
  follow_script(state());
  if (call->init_answer == nvml_success) ++call->initialised;
  return call->init_answer;
}

EXPORTED nvml_return_t nvmlShutdown() {
  const Call call;
  if (!call.is_initialised()) return nvml_uninitialized;
  --call->initialised;
  return nvml_success;
}

EXPORTED nvml_return_t nvmlDeviceGetCount_v2(std::uint32_t* count) {
  const Call call;
  if (!call.is_initialised()) return nvml_uninitialized;
  follow_script(state());
  *count = static_cast<std::uint32_t>(call->devices.size());
  return call->count_answer;
}

EXPORTED nvml_return_t nvmlDeviceGetHandleByIndex_v2(std::uint32_t index, nvml_device_t* device) {
  const Call call;
  if (index >= call->devices.size()) return invalid_argument;
  *device = as_handle(call->devices[index]);
  return call->devices[index].handle_answer;
}

EXPORTED nvml_return_t nvmlDeviceGetUUID(nvml_device_t device, char* text, std::uint32_t size) {
  const Call call;
  if (as_fake(device).uuid_answer != nvml_success) return as_fake(device).uuid_answer;
  const std::string& uuid = as_fake(device).uuid;
  if (uuid.size() + 1 > size) return nvml_insufficient_size;
  std::memcpy(text, uuid.c_str(), uuid.size() + 1);
  return nvml_success;
}

EXPORTED nvml_return_t nvmlDeviceGetPciInfo_v3(nvml_device_t device, nvml_pci_info* pci) {
  const Call call;
  *pci = {};
  pci->bus = as_fake(device).bus;
  return nvml_success;
}

EXPORTED nvml_return_t nvmlDeviceGetMemoryInfo(nvml_device_t device, nvml_memory* memory) {
  const Call call;
  const FakeNvmlDevice& fake = as_fake(device);
  if (fake.memory_answer != nvml_success) return fake.memory_answer;
  const std::uint64_t used = fake.used_bytes + fake.reserved_bytes;
  *memory = {.total = fake.total_bytes, .free = fake.total_bytes - used, .used = used};
  return nvml_success;
}

EXPORTED nvml_return_t nvmlDeviceGetMemoryInfo_v2(nvml_device_t device, nvml_memory_v2* memory) {
  const Call call;
  const FakeNvmlDevice& fake = as_fake(device);
  if (memory->version != nvml_memory_v2_version) return invalid_argument;
  if (fake.memory_v2_answer != nvml_success) return fake.memory_v2_answer;
  memory->total = fake.total_bytes;
  memory->reserved = fake.reserved_bytes;
  memory->used = fake.used_bytes;
  memory->free = fake.total_bytes - fake.used_bytes - fake.reserved_bytes;
  return nvml_success;
}

EXPORTED nvml_return_t nvmlDeviceGetComputeRunningProcesses_v3(nvml_device_t device, std::uint32_t* count,
                                                               nvml_process* processes) {
  return list(device, 0, count, processes);
}

EXPORTED nvml_return_t nvmlDeviceGetGraphicsRunningProcesses_v3(nvml_device_t device, std::uint32_t* count,
                                                                nvml_process* processes) {
  return list(device, 1, count, processes);
}

EXPORTED nvml_return_t nvmlDeviceGetMPSComputeRunningProcesses_v3(nvml_device_t device, std::uint32_t* count,
                                                                  nvml_process* processes) {
  return list(device, 2, count, processes);
}

EXPORTED nvml_return_t nvmlDeviceGetMigMode(nvml_device_t device, std::uint32_t* current,
                                            std::uint32_t* pending) {
  const Call call;
  *current = *pending = as_fake(device).is_divided ? 1 : 0;
  return nvml_success;
}

EXPORTED nvml_return_t nvmlDeviceGetMaxMigDeviceCount(nvml_device_t, std::uint32_t* count) {
  const Call call;
  *count = 7;
  return nvml_success;
}

EXPORTED nvml_return_t nvmlDeviceGetMigDeviceHandleByIndex(nvml_device_t device, std::uint32_t index,
                                                           nvml_device_t* part) {
  const Call call;
  std::vector<FakeNvmlDevice>& parts = as_fake(device).parts;
  if (index >= parts.size()) return nvml_not_found;
  *part = as_handle(parts[index]);
  return nvml_success;
}
