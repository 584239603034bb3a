// SPDX-License-Identifier: Apache-2.0
#include "dataplane/device/gpu/program_streams_over.hpp"
#include "dataplane/device/hip/hip_abi.h"

namespace penstock {
namespace {

struct HipCalls {
  using Event = HipEvent;
  using Stream = HipStream;
  using Address = HipAddress;
  static constexpr unsigned event_flags = hip_event_blocking_sync | hip_event_disable_timing;
  static constexpr int capture_relaxed = hip_capture_relaxed;
  static constexpr std::int32_t capture_implicit = hip_error_stream_capture_implicit;

  NamedCall<HipEventCreateWithFlags> event_create{"hipEventCreateWithFlags"};
  NamedCall<HipEventDestroy> event_destroy{"hipEventDestroy"};
  NamedCall<HipEventRecord> event_record{"hipEventRecord"};
  NamedCall<HipEventQuery> event_query{"hipEventQuery"};
  NamedCall<HipEventSynchronize> event_synchronize{"hipEventSynchronize"};
  NamedCall<HipStreamIsCapturing> stream_is_capturing{"hipStreamIsCapturing"};
  NamedCall<HipThreadExchangeStreamCaptureMode> exchange_capture_mode{"hipThreadExchangeStreamCaptureMode"};
  NamedCall<HipDeviceSynchronize> synchronize{"hipDeviceSynchronize"};
  NamedCall<HipMemcpyDtoHAsync> memcpy_dtoh_async{"hipMemcpyDtoHAsync"};
  NamedCall<HipStreamSynchronize> stream_synchronize{"hipStreamSynchronize"};
  NamedCall<HipGetDevice> get_device{"hipGetDevice"};
  NamedCall<HipSetDevice> set_device{"hipSetDevice"};
  NamedCall<HipPeekAtLastError> peek_at_last_error{"hipPeekAtLastError"};
  NamedCall<HipGetLastError> get_last_error{"hipGetLastError"};

  void find_more(LoadedSymbols& symbols) {
    symbols.find(get_device);
    symbols.find(set_device);
    symbols.find(peek_at_last_error);
    symbols.find(get_last_error);
  }
};

class HipStreams final : public ProgramStreamsOver<HipCalls> {
 public:
  using ProgramStreamsOver::ProgramStreamsOver;

  int current_device() override {
    int device = -1;
    return calls_.get_device(&device).ok() ? device : -1;
  }
  void set_current_device(int device) override {
    if (device >= 0) static_cast<void>(calls_.set_device(device));
  }
  int last_error() override { return calls_.peek_at_last_error().native; }
  void clear_last_error() override { static_cast<void>(calls_.get_last_error()); }
};

}  // namespace

Result<std::unique_ptr<ProgramStreams>> open_hip_streams() {
  void* library = nullptr;
  for (const char* name : {"libamdhip64.so.7", "libamdhip64.so.6"}) {
    if (library == nullptr) library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  }
  if (library == nullptr) return Error{Errc::not_found, 0, "libamdhip64.so"};
  return std::unique_ptr<ProgramStreams>(std::make_unique<HipStreams>(TRY(HipStreams::find(library))));
}

}  // namespace penstock
