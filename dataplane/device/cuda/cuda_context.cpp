// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "dataplane/device/cuda/cuda_driver.hpp"
#include "dataplane/kernels/device_code.hpp"

namespace penstock {
namespace {

CudaStream native(StreamHandle stream) {
  return reinterpret_cast<CudaStream>(static_cast<std::uintptr_t>(stream));
}
CudaEvent native(EventHandle event) {
  return reinterpret_cast<CudaEvent>(static_cast<std::uintptr_t>(event));
}
CudaAddress native(DeviceAddress address) { return static_cast<CudaAddress>(address); }

class CudaDriverContext final : public DriverContext {
 public:
  enum class Kind : std::uint8_t { retained, adopted };
  CudaDriverContext(std::shared_ptr<const CudaTable> table, CudaDevice device, CudaContext context, Kind kind)
      : table_(std::move(table)), device_(device), context_(context), kind_(kind) {}
  ~CudaDriverContext() override {
    if (module_ != nullptr) {
      static_cast<void>(insist([&] { return DriverCode{table_->module_unload(module_), ""}; }));
    }
    if (kind_ == Kind::adopted) return;
    static_cast<void>(insist([&] { return DriverCode{table_->primary_context_release(device_), ""}; }));
  }

  DriverCode enter() override { return {table_->context_set_current(context_), "cuCtxSetCurrent"}; }
  DriverCode enter_for_now() override { return {table_->context_push(context_), "cuCtxPushCurrent"}; }
  void leave() override {
    CudaContext ours = nullptr;
    static_cast<void>(insist([&] { return DriverCode{table_->context_pop(&ours), ""}; }));
  }
  bool is_current() override {
    CudaContext current = nullptr;
    return table_->context_get_current(&current) == cuda_success && current == context_;
  }
  DriverCode memory_figures(DeviceMemoryFigures& figures) override {
    std::size_t free_bytes = 0, total_bytes = 0;
    const DriverCode code{table_->mem_get_info(&free_bytes, &total_bytes), "cuMemGetInfo"};
    if (code.ok()) figures = {.free_bytes = free_bytes, .total_bytes = total_bytes};
    return code;
  }

  DriverCode make_stream(StreamHandle& stream) override {
    CudaStream made = nullptr;
    const DriverCode code{table_->stream_create(&made, cuda_stream_non_blocking), "cuStreamCreate"};
    if (code.ok()) stream = StreamHandle{reinterpret_cast<std::uintptr_t>(made)};
    return code;
  }
  DriverCode destroy_stream(StreamHandle stream) override {
    return {table_->stream_destroy(native(stream)), "cuStreamDestroy"};
  }
  DriverCode synchronize(StreamHandle stream) override {
    return {table_->stream_synchronize(native(stream)), "cuStreamSynchronize"};
  }
  DriverCode make_event(EventHandle& event) override {
    CudaEvent made = nullptr;
    const DriverCode code{table_->event_create(&made, cuda_event_blocking_sync | cuda_event_disable_timing),
                          "cuEventCreate"};
    if (code.ok()) event = EventHandle{reinterpret_cast<std::uintptr_t>(made)};
    return code;
  }
  DriverCode destroy_event(EventHandle event) override {
    return {table_->event_destroy(native(event)), "cuEventDestroy"};
  }
  DriverCode record_event(EventHandle event, StreamHandle stream) override {
    return {table_->event_record(native(event), native(stream)), "cuEventRecord"};
  }
  DriverCode wait_event(EventHandle event) override {
    return {table_->event_synchronize(native(event)), "cuEventSynchronize"};
  }
  DriverCode stream_waits(StreamHandle stream, EventHandle event) override {
    return {table_->stream_wait_event(native(stream), native(event), 0), "cuStreamWaitEvent"};
  }

  DriverCode copy_in(DeviceAddress to, const void* from, std::uint64_t bytes, StreamHandle stream) override {
    return {table_->memcpy_htod_async(native(to), from, bytes, native(stream)), "cuMemcpyHtoDAsync"};
  }
  DriverCode copy_out(void* to, DeviceAddress from, std::uint64_t bytes, StreamHandle stream) override {
    return {table_->memcpy_dtoh_async(to, native(from), bytes, native(stream)), "cuMemcpyDtoHAsync"};
  }
  DriverCode copy_within(DeviceAddress to, DeviceAddress from, std::uint64_t bytes,
                         StreamHandle stream) override {
    return {table_->memcpy_dtod_async(native(to), native(from), bytes, native(stream)), "cuMemcpyDtoDAsync"};
  }
  DriverCode zero(DeviceAddress at, std::uint64_t bytes, StreamHandle stream) override {
    return {table_->memset_d32_async(native(at), 0, bytes / 4, native(stream)), "cuMemsetD32Async"};
  }

  DriverCode allocate(std::uint64_t bytes, DeviceAddress& at) override {
    CudaAddress address = 0;
    const DriverCode code{table_->mem_alloc(&address, bytes), "cuMemAlloc"};
    if (code.ok()) at = DeviceAddress{address};
    return code;
  }
  DriverCode free(DeviceAddress at) override { return {table_->mem_free(native(at)), "cuMemFree"}; }

  DriverCode allocate_host(std::uint64_t bytes, void*& memory) override {
    void* made = nullptr;
    const DriverCode code{
        table_->mem_host_alloc(&made, bytes, cuda_host_alloc_portable | cuda_host_alloc_device_map),
        "cuMemHostAlloc"};
    if (code.ok()) memory = made;
    return code;
  }
  DriverCode free_host(void* memory) override { return {table_->mem_free_host(memory), "cuMemFreeHost"}; }
  DriverCode register_host(void* memory, std::uint64_t bytes) override {
    return {
        table_->mem_host_register(memory, bytes, cuda_host_register_portable | cuda_host_register_device_map),
        "cuMemHostRegister"};
  }
  DriverCode unregister_host(void* memory) override {
    return {table_->mem_host_unregister(memory), "cuMemHostUnregister"};
  }
  DriverCode device_address(void* memory, DeviceAddress& at) override {
    CudaAddress address = 0;
    const DriverCode code{table_->mem_host_get_device_pointer(&address, memory, 0),
                          "cuMemHostGetDevicePointer"};
    if (code.ok()) at = DeviceAddress{address};
    return code;
  }

  DriverCode load_kernels() override {
    const std::span<const std::byte> image = cuda_device_code();
    if (image.empty()) return {cuda_error_no_binary_for_gpu, "cuModuleLoadData"};
    const DriverCode loaded{table_->module_load_data(&module_, image.data()), "cuModuleLoadData"};
    if (!loaded.ok()) return loaded;
    const DriverCode found{table_->module_get_function(&scatter_, module_, scatter_kernel),
                           "cuModuleGetFunction"};
    if (!found.ok()) return found;
    return {table_->module_get_function(&checksum_, module_, checksum_kernel), "cuModuleGetFunction"};
  }
  DriverCode launch_scatter(DeviceAddress pieces, std::uint32_t count, StreamHandle stream) override {
    CudaAddress list = native(pieces);
    void* parameters[] = {&list};
    return {table_->launch_kernel(scatter_, count, 1, 1, kernel_threads, 1, 1, 0, native(stream), parameters,
                                  nullptr),
            "cuLaunchKernel"};
  }
  DriverCode launch_checksum(DeviceAddress tiles, std::uint32_t count, DeviceAddress sums,
                             StreamHandle stream) override {
    CudaAddress list = native(tiles), target = native(sums);
    void* parameters[] = {&list, &target};
    return {table_->launch_kernel(checksum_, count, 1, 1, kernel_threads, 1, 1, 0, native(stream), parameters,
                                  nullptr),
            "cuLaunchKernel"};
  }

 private:
  const std::shared_ptr<const CudaTable> table_;
  const CudaDevice device_;
  const CudaContext context_;
  const Kind kind_;
  CudaModule module_ = nullptr;
  CudaFunction scatter_ = nullptr, checksum_ = nullptr;
};

}  // namespace

DriverCode open_cuda_context(std::shared_ptr<const CudaTable> table, CudaDevice device,
                             std::unique_ptr<DriverContext>& opened) {
  CudaContext context = nullptr;
  const DriverCode retained{table->primary_context_retain(&context, device), "cuDevicePrimaryCtxRetain"};
  if (!retained.ok()) return retained;
  auto made = std::make_unique<CudaDriverContext>(std::move(table), device, context,
                                                  CudaDriverContext::Kind::retained);
  const DriverCode entered = made->enter();
  if (entered.ok()) opened = std::move(made);
  return entered;
}

DriverCode adopt_cuda_context(std::shared_ptr<const CudaTable> table, CudaDevice device,
                              std::unique_ptr<DriverContext>& adopted) {
  CudaContext context = nullptr;
  const DriverCode asked{table->context_get_current(&context), "cuCtxGetCurrent"};
  if (!asked.ok()) return asked;
  if (context == nullptr) return {cuda_error_invalid_context, asked.call};
  CudaDevice whose = 0;
  const DriverCode looked{table->context_get_device(&whose), "cuCtxGetDevice"};
  if (!looked.ok()) return looked;
  if (whose != device) return {cuda_error_invalid_context, looked.call};
  adopted = std::make_unique<CudaDriverContext>(std::move(table), device, context,
                                                CudaDriverContext::Kind::adopted);
  return looked;
}

DriverCode adopt_primary_cuda_context(std::shared_ptr<const CudaTable> table, CudaDevice device,
                                      std::unique_ptr<DriverContext>& adopted) {
  unsigned flags = 0;
  int active = 0;
  const DriverCode asked{table->primary_context_get_state(device, &flags, &active),
                         "cuDevicePrimaryCtxGetState"};
  if (!asked.ok()) return asked;
  if (active == 0) return {cuda_error_invalid_context, asked.call};
  // What tells of it also keeps it: it is given back at once, and stays whose it was.
  CudaContext context = nullptr;
  const DriverCode retained{table->primary_context_retain(&context, device), "cuDevicePrimaryCtxRetain"};
  if (!retained.ok()) return retained;
  static_cast<void>(insist([&] { return DriverCode{table->primary_context_release(device), ""}; }));
  adopted = std::make_unique<CudaDriverContext>(std::move(table), device, context,
                                                CudaDriverContext::Kind::adopted);
  return retained;
}

}  // namespace penstock
