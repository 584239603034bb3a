// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <memory>
#include <type_traits>

#include <dlfcn.h>

#include "dataplane/device/gpu/program_streams.hpp"
#include "dataplane/device/hip/hip_abi.h"

namespace penstock {
namespace {

struct StreamTable {
  HipEventCreateWithFlags event_create = nullptr;
  HipEventDestroy event_destroy = nullptr;
  HipEventRecord event_record = nullptr;
  HipEventQuery event_query = nullptr;
  HipEventSynchronize event_synchronize = nullptr;
  HipStreamIsCapturing stream_is_capturing = nullptr;
  HipThreadExchangeStreamCaptureMode exchange_capture_mode = nullptr;  // Null: an old driver.
  HipDeviceSynchronize device_synchronize = nullptr;
  HipMemcpyDtoHAsync memcpy_dtoh_async = nullptr;
  HipStreamSynchronize stream_synchronize = nullptr;
  HipGetDevice get_device = nullptr;
  HipSetDevice set_device = nullptr;
};

HipEvent native(EventHandle event) { return reinterpret_cast<HipEvent>(static_cast<std::uintptr_t>(event)); }
HipStream native(StreamHandle stream) {
  return reinterpret_cast<HipStream>(static_cast<std::uintptr_t>(stream));
}

class HipStreams final : public ProgramStreams {
 public:
  explicit HipStreams(const StreamTable& table) : table_(table) {}

  DriverCode make_event(EventHandle& event) override {
    HipEvent made = nullptr;
    const DriverCode code{table_.event_create(&made, hip_event_blocking_sync | hip_event_disable_timing),
                          "hipEventCreateWithFlags"};
    if (code.ok()) event = EventHandle{reinterpret_cast<std::uintptr_t>(made)};
    return code;
  }
  DriverCode destroy_event(EventHandle event) override {
    return {table_.event_destroy(native(event)), "hipEventDestroy"};
  }
  DriverCode record_event(EventHandle event, StreamHandle stream) override {
    return {table_.event_record(native(event), native(stream)), "hipEventRecord"};
  }
  DriverCode query_event(EventHandle event) override {
    return {table_.event_query(native(event)), "hipEventQuery"};
  }
  DriverCode wait_event(EventHandle event) override {
    return {table_.event_synchronize(native(event)), "hipEventSynchronize"};
  }
  DriverCode is_capturing(StreamHandle stream, bool& capturing) override {
    int status = 0;
    const DriverCode code{table_.stream_is_capturing(native(stream), &status), "hipStreamIsCapturing"};
    // The null stream can't be asked while another one captures what would wait for it.
    if (code.native == hip_error_stream_capture_implicit) {
      capturing = true;
      return {0, code.call};
    }
    if (code.ok()) capturing = status != 0;
    return code;
  }
  DriverCode copy_out(void* to, DeviceAddress from, std::uint64_t bytes, StreamHandle stream) override {
    void* const source = reinterpret_cast<void*>(static_cast<std::uintptr_t>(from));
    const DriverCode code{table_.memcpy_dtoh_async(to, source, bytes, native(stream)), "hipMemcpyDtoHAsync"};
    return code.ok() ? DriverCode{table_.stream_synchronize(native(stream)), "hipStreamSynchronize"} : code;
  }
  DriverCode synchronize() override { return {table_.device_synchronize(), "hipDeviceSynchronize"}; }

  int relax_captures() override {
    int mode = hip_capture_relaxed;
    if (table_.exchange_capture_mode == nullptr || table_.exchange_capture_mode(&mode) != hip_success)
      return -1;
    return mode;
  }
  void set_capture_mode(int mode) override { static_cast<void>(table_.exchange_capture_mode(&mode)); }

  int current_device() override {
    int device = -1;
    return table_.get_device(&device) == hip_success ? device : -1;
  }
  void set_current_device(int device) override {
    if (device >= 0) static_cast<void>(table_.set_device(device));
  }

 private:
  const StreamTable table_;
};

}  // namespace

Result<std::unique_ptr<ProgramStreams>> open_hip_streams() {
  void* library = nullptr;
  for (const char* name : {"libamdhip64.so.7", "libamdhip64.so.6"}) {
    if (library == nullptr) library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  }
  if (library == nullptr) return Error{Errc::not_found, 0, "libamdhip64.so"};
  const char* missing = nullptr;
  const auto find = [&](auto& function, const char* symbol) {
    void* const address = ::dlsym(library, symbol);
    if (address == nullptr) missing = symbol;
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(address);
  };
  StreamTable table;
  find(table.event_create, "hipEventCreateWithFlags");
  find(table.event_destroy, "hipEventDestroy");
  find(table.event_record, "hipEventRecord");
  find(table.event_query, "hipEventQuery");
  find(table.event_synchronize, "hipEventSynchronize");
  find(table.stream_is_capturing, "hipStreamIsCapturing");
  find(table.device_synchronize, "hipDeviceSynchronize");
  find(table.memcpy_dtoh_async, "hipMemcpyDtoHAsync");
  find(table.stream_synchronize, "hipStreamSynchronize");
  find(table.get_device, "hipGetDevice");
  find(table.set_device, "hipSetDevice");
  table.exchange_capture_mode = reinterpret_cast<HipThreadExchangeStreamCaptureMode>(
      ::dlsym(library, "hipThreadExchangeStreamCaptureMode"));
  if (missing != nullptr) return Error{Errc::unsupported, 0, missing};
  return std::unique_ptr<ProgramStreams>(std::make_unique<HipStreams>(table));
}

}  // namespace penstock
