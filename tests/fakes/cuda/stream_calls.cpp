// SPDX-License-Identifier: Apache-2.0
// Streams, events, copies. Signatures: cuda_abi.h.
#include "tests/fakes/cuda/entry.hpp"
#include "tests/fakes/engine/work.hpp"

namespace penstock::fake {
namespace {

Stream& stream_of(CudaStream stream, const char* call) { return driver().current().stream(stream, call); }
Event& event_of(CudaEvent event, const char* call) { return driver().current().event(event, call); }

}  // namespace

FAKE_EXPORT CudaResult cuStreamCreate(CudaStream* stream, unsigned flags) {
  return answer("cuStreamCreate", Needs::context, [&]() -> CudaResult {
    if (stream == nullptr || flags > cuda_stream_non_blocking) return cuda_error_invalid_value;
    *stream = reinterpret_cast<CudaStream>(driver().current().make_stream(flags != cuda_stream_non_blocking));
    return cuda_success;
  });
}

FAKE_EXPORT CudaResult cuStreamDestroy_v2(CudaStream stream) {
  return answer("cuStreamDestroy", Needs::context, [&]() -> CudaResult {
    if (stream == nullptr) return cuda_error_invalid_value;
    driver().current().destroy_stream(stream_of(stream, "cuStreamDestroy"));
    return cuda_success;
  });
}

FAKE_EXPORT CudaResult cuStreamQuery(CudaStream stream) {
  return answer("cuStreamQuery", Needs::context,
                [&]() -> CudaResult { return driver().current().query(stream_of(stream, "cuStreamQuery")); });
}

FAKE_EXPORT CudaResult cuStreamSynchronize(CudaStream stream) {
  return answer("cuStreamSynchronize", Needs::context, [&]() -> CudaResult {
    return driver().current().synchronize(stream_of(stream, "cuStreamSynchronize"));
  });
}

FAKE_EXPORT CudaResult cuStreamWaitEvent(CudaStream stream, CudaEvent event, unsigned flags) {
  return answer("cuStreamWaitEvent", Needs::context, [&]() -> CudaResult {
    if (flags != 0) return cuda_error_invalid_value;
    return driver().current().wait_event(stream_of(stream, "cuStreamWaitEvent"),
                                         event_of(event, "cuStreamWaitEvent"));
  });
}

FAKE_EXPORT CudaResult cuStreamIsCapturing(CudaStream stream, int* status) {
  return answer("cuStreamIsCapturing", Needs::context, [&]() -> CudaResult {
    if (status == nullptr) return cuda_error_invalid_value;
    return driver().current().capture_of(stream_of(stream, "cuStreamIsCapturing"), status);
  });
}

FAKE_EXPORT CudaResult cuThreadExchangeStreamCaptureMode(int* mode) {
  return answer("cuThreadExchangeStreamCaptureMode", Needs::init, [&]() -> CudaResult {
    if (mode == nullptr || *mode < cuda_capture_global || *mode > cuda_capture_relaxed)
      return cuda_error_invalid_value;
    *mode = Context::exchange_capture_mode(*mode);
    return cuda_success;
  });
}

// Mode 0 is the global one: unsafe calls of any thread invalidate the capture.
FAKE_EXPORT CudaResult cuStreamBeginCapture_v2(CudaStream stream, int mode) {
  return answer("cuStreamBeginCapture", Needs::context, [&]() -> CudaResult {
    return driver().current().begin_capture(stream_of(stream, "cuStreamBeginCapture"), mode == 0);
  });
}

FAKE_EXPORT CudaResult cuStreamEndCapture(CudaStream stream, void** graph) {
  return answer("cuStreamEndCapture", Needs::context, [&]() -> CudaResult {
    if (graph == nullptr) return cuda_error_invalid_value;
    *graph = nullptr;
    return driver().current().end_capture(stream_of(stream, "cuStreamEndCapture"));
  });
}

FAKE_EXPORT CudaResult cuEventCreate(CudaEvent* event, unsigned /*flags*/) {
  return answer("cuEventCreate", Needs::context, [&]() -> CudaResult {
    if (event == nullptr) return cuda_error_invalid_value;
    *event = reinterpret_cast<CudaEvent>(driver().current().make_event());
    return cuda_success;
  });
}

FAKE_EXPORT CudaResult cuEventDestroy_v2(CudaEvent event) {
  return answer("cuEventDestroy", Needs::context, [&]() -> CudaResult {
    if (driver().is_of_ended_context(event)) return cuda_error_invalid_handle;
    driver().current().destroy_event(event_of(event, "cuEventDestroy"));
    return cuda_success;
  });
}

FAKE_EXPORT CudaResult cuEventRecord(CudaEvent event, CudaStream stream) {
  return answer("cuEventRecord", Needs::context, [&]() -> CudaResult {
    if (driver().is_of_ended_context(event)) return cuda_error_invalid_handle;
    return driver().current().record(event_of(event, "cuEventRecord"), stream_of(stream, "cuEventRecord"));
  });
}

FAKE_EXPORT CudaResult cuEventQuery(CudaEvent event) {
  return answer("cuEventQuery", Needs::context, [&]() -> CudaResult {
    if (driver().is_of_ended_context(event)) return cuda_error_invalid_handle;
    return driver().current().query(event_of(event, "cuEventQuery"));
  });
}

FAKE_EXPORT CudaResult cuEventSynchronize(CudaEvent event) {
  return answer("cuEventSynchronize", Needs::context, [&]() -> CudaResult {
    if (driver().is_of_ended_context(event)) return cuda_error_invalid_handle;
    return driver().current().synchronize(event_of(event, "cuEventSynchronize"));
  });
}

FAKE_EXPORT CudaResult cuMemcpyHtoDAsync_v2(CudaAddress to, const void* from, std::size_t size,
                                            CudaStream stream) {
  return answer("cuMemcpyHtoDAsync", Needs::context, [&]() -> CudaResult {
    return copy_in(driver().current(), to, from, size, stream_of(stream, "cuMemcpyHtoDAsync"));
  });
}

FAKE_EXPORT CudaResult cuMemcpyDtoHAsync_v2(void* to, CudaAddress from, std::size_t size, CudaStream stream) {
  return answer("cuMemcpyDtoHAsync", Needs::context, [&]() -> CudaResult {
    return copy_out(driver().current(), to, from, size, stream_of(stream, "cuMemcpyDtoHAsync"));
  });
}

FAKE_EXPORT CudaResult cuMemcpyDtoDAsync_v2(CudaAddress to, CudaAddress from, std::size_t size,
                                            CudaStream stream) {
  return answer("cuMemcpyDtoDAsync", Needs::context, [&]() -> CudaResult {
    return copy_within(driver().current(), to, from, size, stream_of(stream, "cuMemcpyDtoDAsync"));
  });
}

FAKE_EXPORT CudaResult cuMemsetD8Async(CudaAddress to, unsigned char value, std::size_t count,
                                       CudaStream stream) {
  return answer("cuMemsetD8Async", Needs::context, [&]() -> CudaResult {
    return fill(driver().current(), to, value, 1, count, stream_of(stream, "cuMemsetD8Async"));
  });
}

FAKE_EXPORT CudaResult cuMemsetD32Async(CudaAddress to, unsigned value, std::size_t count,
                                        CudaStream stream) {
  return answer("cuMemsetD32Async", Needs::context, [&]() -> CudaResult {
    return fill(driver().current(), to, value, 4, count, stream_of(stream, "cuMemsetD32Async"));
  });
}

}  // namespace penstock::fake
