// SPDX-License-Identifier: Apache-2.0
// Streams, events, copies, host memory. Signatures: hip_abi.h.
#include "tests/fakes/engine/host_memory.hpp"
#include "tests/fakes/engine/work.hpp"
#include "tests/fakes/hip/entry.hpp"

namespace penstock::fake {
namespace {

Stream& stream_of(HipStream stream, const char* call) {
  return driver().current().stream(reinterpret_cast<CudaStream>(stream), call);
}
Event& event_of(HipEvent event, const char* call) {
  return driver().current().event(reinterpret_cast<CudaEvent>(event), call);
}

}  // namespace

FAKE_EXPORT HipResult hipStreamCreateWithFlags(HipStream* stream, unsigned flags) {
  return answer("hipStreamCreateWithFlags", Needs::context, [&]() -> HipResult {
    if (stream == nullptr || flags > hip_stream_non_blocking) return hip_error_invalid_value;
    *stream = reinterpret_cast<HipStream>(driver().current().make_stream(flags != hip_stream_non_blocking));
    return hip_success;
  });
}

FAKE_EXPORT HipResult hipStreamDestroy(HipStream stream) {
  return answer("hipStreamDestroy", Needs::context, [&]() -> HipResult {
    if (stream == nullptr) return hip_error_invalid_value;
    driver().current().destroy_stream(stream_of(stream, "hipStreamDestroy"));
    return hip_success;
  });
}

FAKE_EXPORT HipResult hipStreamQuery(HipStream stream) {
  return answer("hipStreamQuery", Needs::context,
                [&]() -> HipResult { return driver().current().query(stream_of(stream, "hipStreamQuery")); });
}

FAKE_EXPORT HipResult hipStreamSynchronize(HipStream stream) {
  return answer("hipStreamSynchronize", Needs::context, [&]() -> HipResult {
    return driver().current().synchronize(stream_of(stream, "hipStreamSynchronize"));
  });
}

FAKE_EXPORT HipResult hipStreamWaitEvent(HipStream stream, HipEvent event, unsigned flags) {
  return answer("hipStreamWaitEvent", Needs::context, [&]() -> HipResult {
    if (flags != 0) return hip_error_invalid_value;
    return driver().current().wait_event(stream_of(stream, "hipStreamWaitEvent"),
                                         event_of(event, "hipStreamWaitEvent"));
  });
}

FAKE_EXPORT HipResult hipStreamIsCapturing(HipStream stream, int* status) {
  return answer("hipStreamIsCapturing", Needs::context, [&]() -> HipResult {
    if (status == nullptr) return hip_error_invalid_value;
    return driver().current().capture_of(stream_of(stream, "hipStreamIsCapturing"), status);
  });
}

FAKE_EXPORT HipResult hipThreadExchangeStreamCaptureMode(int* mode) {
  return answer("hipThreadExchangeStreamCaptureMode", Needs::init, [&]() -> HipResult {
    if (mode == nullptr || *mode < hip_capture_global || *mode > hip_capture_relaxed)
      return hip_error_invalid_value;
    *mode = Context::exchange_capture_mode(*mode);
    return hip_success;
  });
}

// Mode 0 is the global one: unsafe calls of any thread invalidate the capture.
FAKE_EXPORT HipResult hipStreamBeginCapture(HipStream stream, int mode) {
  return answer("hipStreamBeginCapture", Needs::context, [&]() -> HipResult {
    return driver().current().begin_capture(stream_of(stream, "hipStreamBeginCapture"), mode == 0);
  });
}

FAKE_EXPORT HipResult hipStreamEndCapture(HipStream stream, void** graph) {
  return answer("hipStreamEndCapture", Needs::context, [&]() -> HipResult {
    if (graph == nullptr) return hip_error_invalid_value;
    *graph = nullptr;
    return driver().current().end_capture(stream_of(stream, "hipStreamEndCapture"));
  });
}

FAKE_EXPORT HipResult hipEventCreateWithFlags(HipEvent* event, unsigned /*flags*/) {
  return answer("hipEventCreateWithFlags", Needs::context, [&]() -> HipResult {
    if (event == nullptr) return hip_error_invalid_value;
    *event = reinterpret_cast<HipEvent>(driver().current().make_event());
    return hip_success;
  });
}

FAKE_EXPORT HipResult hipEventDestroy(HipEvent event) {
  return answer("hipEventDestroy", Needs::context, [&]() -> HipResult {
    if (driver().is_of_ended_context(event)) return hip_error_context_is_destroyed;
    driver().current().destroy_event(event_of(event, "hipEventDestroy"));
    return hip_success;
  });
}

FAKE_EXPORT HipResult hipEventRecord(HipEvent event, HipStream stream) {
  return answer("hipEventRecord", Needs::context, [&]() -> HipResult {
    if (driver().is_of_ended_context(event)) return hip_error_context_is_destroyed;
    return driver().current().record(event_of(event, "hipEventRecord"), stream_of(stream, "hipEventRecord"));
  });
}

FAKE_EXPORT HipResult hipEventQuery(HipEvent event) {
  return answer("hipEventQuery", Needs::context, [&]() -> HipResult {
    if (driver().is_of_ended_context(event)) return hip_error_context_is_destroyed;
    return driver().current().query(event_of(event, "hipEventQuery"));
  });
}

FAKE_EXPORT HipResult hipEventSynchronize(HipEvent event) {
  return answer("hipEventSynchronize", Needs::context, [&]() -> HipResult {
    if (driver().is_of_ended_context(event)) return hip_error_context_is_destroyed;
    return driver().current().synchronize(event_of(event, "hipEventSynchronize"));
  });
}

FAKE_EXPORT HipResult hipMemcpyHtoDAsync(HipAddress to, const void* from, std::size_t size,
                                         HipStream stream) {
  return answer("hipMemcpyHtoDAsync", Needs::context, [&]() -> HipResult {
    return copy_in(driver().current(), number(to), from, size, stream_of(stream, "hipMemcpyHtoDAsync"));
  });
}

FAKE_EXPORT HipResult hipMemcpyDtoHAsync(void* to, HipAddress from, std::size_t size, HipStream stream) {
  return answer("hipMemcpyDtoHAsync", Needs::context, [&]() -> HipResult {
    return copy_out(driver().current(), to, number(from), size, stream_of(stream, "hipMemcpyDtoHAsync"));
  });
}

FAKE_EXPORT HipResult hipMemcpyDtoDAsync(HipAddress to, HipAddress from, std::size_t size, HipStream stream) {
  return answer("hipMemcpyDtoDAsync", Needs::context, [&]() -> HipResult {
    return copy_within(driver().current(), number(to), number(from), size,
                       stream_of(stream, "hipMemcpyDtoDAsync"));
  });
}

FAKE_EXPORT HipResult hipMemsetD8Async(HipAddress to, unsigned char value, std::size_t count,
                                       HipStream stream) {
  return answer("hipMemsetD8Async", Needs::context, [&]() -> HipResult {
    return fill(driver().current(), number(to), value, 1, count, stream_of(stream, "hipMemsetD8Async"));
  });
}

FAKE_EXPORT HipResult hipMemsetD32Async(HipAddress to, int value, std::size_t count, HipStream stream) {
  return answer("hipMemsetD32Async", Needs::context, [&]() -> HipResult {
    return fill(driver().current(), number(to), static_cast<std::uint32_t>(value), 4, count,
                stream_of(stream, "hipMemsetD32Async"));
  });
}

FAKE_EXPORT HipResult hipHostMalloc(void** memory, std::size_t size, unsigned /*flags*/) {
  return answer("hipHostMalloc", Needs::context,
                [&]() -> HipResult { return HostMemory::instance().allocate(size, memory); });
}

FAKE_EXPORT HipResult hipHostFree(void* memory) {
  return answer("hipHostFree", Needs::context,
                [&]() -> HipResult { return HostMemory::instance().free(memory); });
}

FAKE_EXPORT HipResult hipHostRegister(void* memory, std::size_t size, unsigned /*flags*/) {
  return answer("hipHostRegister", Needs::context,
                [&]() -> HipResult { return HostMemory::instance().add(memory, size); });
}

FAKE_EXPORT HipResult hipHostUnregister(void* memory) {
  return answer("hipHostUnregister", Needs::context,
                [&]() -> HipResult { return HostMemory::instance().remove(memory); });
}

FAKE_EXPORT HipResult hipHostGetDevicePointer(HipAddress* address, void* memory, unsigned flags) {
  return answer("hipHostGetDevicePointer", Needs::context, [&]() -> HipResult {
    if (address == nullptr || flags != 0 || !HostMemory::instance().is_registered(number(memory), 1)) {
      return hip_error_invalid_value;
    }
    *address = memory;
    return hip_success;
  });
}

}  // namespace penstock::fake
