// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <memory>
#include <type_traits>

#include <dlfcn.h>

#include "dataplane/device/cuda/cuda_abi.h"
#include "dataplane/device/gpu/program_streams.hpp"

namespace penstock {
namespace {

struct StreamTable {
  CudaEventCreate event_create = nullptr;
  CudaEventDestroy event_destroy = nullptr;
  CudaEventRecord event_record = nullptr;
  CudaEventQuery event_query = nullptr;
  CudaEventSynchronize event_synchronize = nullptr;
  CudaStreamIsCapturing stream_is_capturing = nullptr;
  CudaThreadExchangeStreamCaptureMode exchange_capture_mode = nullptr;  // Null: an old driver.
  CudaContextSynchronize context_synchronize = nullptr;
  CudaMemcpyDtoHAsync memcpy_dtoh_async = nullptr;
  CudaStreamSynchronize stream_synchronize = nullptr;
};

CudaEvent native(EventHandle event) {
  return reinterpret_cast<CudaEvent>(static_cast<std::uintptr_t>(event));
}
CudaStream native(StreamHandle stream) {
  return reinterpret_cast<CudaStream>(static_cast<std::uintptr_t>(stream));
}

class CudaStreams final : public ProgramStreams {
 public:
  explicit CudaStreams(const StreamTable& table) : table_(table) {}

  DriverCode make_event(EventHandle& event) override {
    CudaEvent made = nullptr;
    const DriverCode code{table_.event_create(&made, cuda_event_blocking_sync | cuda_event_disable_timing),
                          "cuEventCreate"};
    if (code.ok()) event = EventHandle{reinterpret_cast<std::uintptr_t>(made)};
    return code;
  }
  DriverCode destroy_event(EventHandle event) override {
    return {table_.event_destroy(native(event)), "cuEventDestroy"};
  }
  DriverCode record_event(EventHandle event, StreamHandle stream) override {
    return {table_.event_record(native(event), native(stream)), "cuEventRecord"};
  }
  DriverCode query_event(EventHandle event) override {
    return {table_.event_query(native(event)), "cuEventQuery"};
  }
  DriverCode wait_event(EventHandle event) override {
    return {table_.event_synchronize(native(event)), "cuEventSynchronize"};
  }
  DriverCode is_capturing(StreamHandle stream, bool& capturing) override {
    int status = 0;
    const DriverCode code{table_.stream_is_capturing(native(stream), &status), "cuStreamIsCapturing"};
    // The null stream can't be asked while another one captures what would wait for it.
    if (code.native == cuda_error_stream_capture_implicit) {
      capturing = true;
      return {0, code.call};
    }
    if (code.ok()) capturing = status != 0;
    return code;
  }
  DriverCode copy_out(void* to, DeviceAddress from, std::uint64_t bytes, StreamHandle stream) override {
    const DriverCode code{table_.memcpy_dtoh_async(to, static_cast<CudaAddress>(from), bytes, native(stream)),
                          "cuMemcpyDtoHAsync"};
    return code.ok() ? DriverCode{table_.stream_synchronize(native(stream)), "cuStreamSynchronize"} : code;
  }
  DriverCode synchronize() override { return {table_.context_synchronize(), "cuCtxSynchronize"}; }

  int relax_captures() override {
    int mode = cuda_capture_relaxed;
    if (table_.exchange_capture_mode == nullptr || table_.exchange_capture_mode(&mode) != cuda_success)
      return -1;
    return mode;
  }
  void set_capture_mode(int mode) override { static_cast<void>(table_.exchange_capture_mode(&mode)); }

  // Memory calls name their device.
  int current_device() override { return -1; }
  void set_current_device(int) override {}

 private:
  const StreamTable table_;
};

}  // namespace

Result<std::unique_ptr<ProgramStreams>> open_cuda_streams() {
  void* const library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  if (library == nullptr) return Error{Errc::not_found, 0, "libcuda.so.1"};
  const char* missing = nullptr;
  const auto find = [&](auto& function, const char* symbol) {
    void* const address = ::dlsym(library, symbol);
    if (address == nullptr) missing = symbol;
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(address);
  };
  StreamTable table;
  find(table.event_create, "cuEventCreate");
  find(table.event_destroy, "cuEventDestroy_v2");
  find(table.event_record, "cuEventRecord");
  find(table.event_query, "cuEventQuery");
  find(table.event_synchronize, "cuEventSynchronize");
  find(table.stream_is_capturing, "cuStreamIsCapturing");
  find(table.context_synchronize, "cuCtxSynchronize");
  find(table.memcpy_dtoh_async, "cuMemcpyDtoHAsync_v2");
  find(table.stream_synchronize, "cuStreamSynchronize");
  table.exchange_capture_mode = reinterpret_cast<CudaThreadExchangeStreamCaptureMode>(
      ::dlsym(library, "cuThreadExchangeStreamCaptureMode"));
  if (missing != nullptr) return Error{Errc::unsupported, 0, missing};
  return std::unique_ptr<ProgramStreams>(std::make_unique<CudaStreams>(table));
}

}  // namespace penstock
