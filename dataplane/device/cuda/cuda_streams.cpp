// SPDX-License-Identifier: Apache-2.0
#include "dataplane/device/cuda/cuda_abi.h"
#include "dataplane/device/gpu/program_streams_over.hpp"

namespace penstock {
namespace {

struct CudaCalls {
  using Event = CudaEvent;
  using Stream = CudaStream;
  using Address = CudaAddress;
  static constexpr unsigned event_flags = cuda_event_blocking_sync | cuda_event_disable_timing;
  static constexpr int capture_relaxed = cuda_capture_relaxed;
  static constexpr std::int32_t capture_implicit = cuda_error_stream_capture_implicit;

  NamedCall<CudaEventCreate> event_create{"cuEventCreate"};
  NamedCall<CudaEventDestroy> event_destroy{"cuEventDestroy", "cuEventDestroy_v2"};
  NamedCall<CudaEventRecord> event_record{"cuEventRecord"};
  NamedCall<CudaEventQuery> event_query{"cuEventQuery"};
  NamedCall<CudaEventSynchronize> event_synchronize{"cuEventSynchronize"};
  NamedCall<CudaStreamIsCapturing> stream_is_capturing{"cuStreamIsCapturing"};
  NamedCall<CudaThreadExchangeStreamCaptureMode> exchange_capture_mode{"cuThreadExchangeStreamCaptureMode"};
  NamedCall<CudaContextSynchronize> synchronize{"cuCtxSynchronize"};
  NamedCall<CudaMemcpyDtoHAsync> memcpy_dtoh_async{"cuMemcpyDtoHAsync", "cuMemcpyDtoHAsync_v2"};
  NamedCall<CudaStreamSynchronize> stream_synchronize{"cuStreamSynchronize"};

  void find_more(LoadedSymbols&) {}
};

class CudaStreams final : public ProgramStreamsOver<CudaCalls> {
 public:
  using ProgramStreamsOver::ProgramStreamsOver;

  // Memory calls name their device.
  int current_device() override { return -1; }
  void set_current_device(int) override {}
  // The runtime alone keeps one, of its own calls.
  int last_error() override { return 0; }
  void clear_last_error() override {}
};

}  // namespace

Result<std::unique_ptr<ProgramStreams>> open_cuda_streams() {
  void* const library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  if (library == nullptr) return Error{Errc::not_found, 0, "libcuda.so.1"};
  return std::unique_ptr<ProgramStreams>(std::make_unique<CudaStreams>(TRY(CudaStreams::find(library))));
}

}  // namespace penstock
