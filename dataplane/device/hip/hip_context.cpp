// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "dataplane/device/hip/hip_driver.hpp"
#include "dataplane/kernels/device_code.hpp"

namespace penstock {
namespace {

HipStream native(StreamHandle stream) {
  return reinterpret_cast<HipStream>(static_cast<std::uintptr_t>(stream));
}
HipEvent native(EventHandle event) { return reinterpret_cast<HipEvent>(static_cast<std::uintptr_t>(event)); }
HipAddress native(DeviceAddress address) {
  return reinterpret_cast<HipAddress>(static_cast<std::uintptr_t>(address));
}

class HipDriverContext final : public DriverContext {
 public:
  HipDriverContext(std::shared_ptr<const HipTable> table, HipDevice device)
      : table_(std::move(table)), device_(device) {}
  ~HipDriverContext() override {
    if (module_ != nullptr) {
      static_cast<void>(insist([&] { return DriverCode{table_->module_unload(module_), ""}; }));
    }
  }

  DriverCode enter() override { return {table_->set_device(device_), "hipSetDevice"}; }
  DriverCode enter_for_now() override { return enter(); }
  void leave() override {}
  bool is_current() override {
    HipDevice current = 0;
    return table_->get_device(&current) == hip_success && current == device_;
  }
  DriverCode memory_figures(DeviceMemoryFigures& figures) override {
    std::size_t free_bytes = 0, total_bytes = 0;
    const DriverCode code{table_->mem_get_info(&free_bytes, &total_bytes), "hipMemGetInfo"};
    if (code.ok()) figures = {.free_bytes = free_bytes, .total_bytes = total_bytes};
    return code;
  }

  DriverCode make_stream(StreamHandle& stream) override {
    HipStream made = nullptr;
    const DriverCode code{table_->stream_create_with_flags(&made, hip_stream_non_blocking),
                          "hipStreamCreateWithFlags"};
    if (code.ok()) stream = StreamHandle{reinterpret_cast<std::uintptr_t>(made)};
    return code;
  }
  DriverCode destroy_stream(StreamHandle stream) override {
    return {table_->stream_destroy(native(stream)), "hipStreamDestroy"};
  }
  DriverCode synchronize(StreamHandle stream) override {
    return {table_->stream_synchronize(native(stream)), "hipStreamSynchronize"};
  }
  DriverCode make_event(EventHandle& event) override {
    HipEvent made = nullptr;
    const DriverCode code{
        table_->event_create_with_flags(&made, hip_event_blocking_sync | hip_event_disable_timing),
        "hipEventCreateWithFlags"};
    if (code.ok()) event = EventHandle{reinterpret_cast<std::uintptr_t>(made)};
    return code;
  }
  DriverCode destroy_event(EventHandle event) override {
    return {table_->event_destroy(native(event)), "hipEventDestroy"};
  }
  DriverCode record_event(EventHandle event, StreamHandle stream) override {
    return {table_->event_record(native(event), native(stream)), "hipEventRecord"};
  }
  DriverCode wait_event(EventHandle event) override {
    return {table_->event_synchronize(native(event)), "hipEventSynchronize"};
  }
  DriverCode stream_waits(StreamHandle stream, EventHandle event) override {
    return {table_->stream_wait_event(native(stream), native(event), 0), "hipStreamWaitEvent"};
  }

  DriverCode copy_in(DeviceAddress to, const void* from, std::uint64_t bytes, StreamHandle stream) override {
    return {table_->memcpy_htod_async(native(to), from, bytes, native(stream)), "hipMemcpyHtoDAsync"};
  }
  DriverCode copy_out(void* to, DeviceAddress from, std::uint64_t bytes, StreamHandle stream) override {
    return {table_->memcpy_dtoh_async(to, native(from), bytes, native(stream)), "hipMemcpyDtoHAsync"};
  }
  DriverCode copy_within(DeviceAddress to, DeviceAddress from, std::uint64_t bytes,
                         StreamHandle stream) override {
    return {table_->memcpy_dtod_async(native(to), native(from), bytes, native(stream)), "hipMemcpyDtoDAsync"};
  }
  DriverCode zero(DeviceAddress at, std::uint64_t bytes, StreamHandle stream) override {
    return {table_->memset_d32_async(native(at), 0, bytes / 4, native(stream)), "hipMemsetD32Async"};
  }

  DriverCode allocate(std::uint64_t bytes, DeviceAddress& at) override {
    HipAddress address = nullptr;
    const DriverCode code{table_->malloc(&address, bytes), "hipMalloc"};
    if (code.ok()) at = DeviceAddress{reinterpret_cast<std::uintptr_t>(address)};
    return code;
  }
  DriverCode free(DeviceAddress at) override { return {table_->free(native(at)), "hipFree"}; }

  DriverCode allocate_host(std::uint64_t bytes, void*& memory) override {
    void* made = nullptr;
    const DriverCode code{table_->host_malloc(&made, bytes, hip_host_portable | hip_host_mapped),
                          "hipHostMalloc"};
    if (code.ok()) memory = made;
    return code;
  }
  DriverCode free_host(void* memory) override { return {table_->host_free(memory), "hipHostFree"}; }
  DriverCode register_host(void* memory, std::uint64_t bytes) override {
    return {table_->host_register(memory, bytes, hip_host_portable | hip_host_mapped), "hipHostRegister"};
  }
  DriverCode unregister_host(void* memory) override {
    return {table_->host_unregister(memory), "hipHostUnregister"};
  }
  DriverCode device_address(void* memory, DeviceAddress& at) override {
    HipAddress address = nullptr;
    const DriverCode code{table_->host_get_device_pointer(&address, memory, 0), "hipHostGetDevicePointer"};
    if (code.ok()) at = DeviceAddress{reinterpret_cast<std::uintptr_t>(address)};
    return code;
  }

  DriverCode load_kernels() override {
    auto properties = std::make_unique<HipDeviceProperties600>();
    const DriverCode asked{table_->get_device_properties(properties.get(), device_),
                           "hipGetDevicePropertiesR0600"};
    if (!asked.ok()) return asked;
    const std::span<const std::byte> image = hip_device_code(properties->architecture);
    if (image.empty()) return {hip_error_no_binary_for_gpu, "hipModuleLoadData"};
    const DriverCode loaded{table_->module_load_data(&module_, image.data()), "hipModuleLoadData"};
    if (!loaded.ok()) return loaded;
    const DriverCode found{table_->module_get_function(&scatter_, module_, scatter_kernel),
                           "hipModuleGetFunction"};
    if (!found.ok()) return found;
    return {table_->module_get_function(&checksum_, module_, checksum_kernel), "hipModuleGetFunction"};
  }
  DriverCode launch_scatter(DeviceAddress pieces, std::uint32_t count, StreamHandle stream) override {
    HipAddress list = native(pieces);
    void* parameters[] = {&list};
    return {table_->module_launch_kernel(scatter_, count, 1, 1, kernel_threads, 1, 1, 0, native(stream),
                                         parameters, nullptr),
            "hipModuleLaunchKernel"};
  }
  DriverCode launch_checksum(DeviceAddress tiles, std::uint32_t count, DeviceAddress sums,
                             StreamHandle stream) override {
    HipAddress list = native(tiles), target = native(sums);
    void* parameters[] = {&list, &target};
    return {table_->module_launch_kernel(checksum_, count, 1, 1, kernel_threads, 1, 1, 0, native(stream),
                                         parameters, nullptr),
            "hipModuleLaunchKernel"};
  }

 private:
  const std::shared_ptr<const HipTable> table_;
  const HipDevice device_;
  HipModule module_ = nullptr;
  HipFunction scatter_ = nullptr, checksum_ = nullptr;
};

}  // namespace

DriverCode open_hip_context(std::shared_ptr<const HipTable> table, HipDevice device,
                            std::unique_ptr<DriverContext>& opened) {
  auto made = std::make_unique<HipDriverContext>(std::move(table), device);
  const DriverCode entered = made->enter();
  if (entered.ok()) opened = std::move(made);
  return entered;
}

DriverCode adopt_hip_context(std::shared_ptr<const HipTable> table, HipDevice device,
                             std::unique_ptr<DriverContext>& adopted) {
  HipDevice current = 0;
  const DriverCode asked{table->get_device(&current), "hipGetDevice"};
  if (!asked.ok()) return asked;
  if (current != device) return {hip_error_invalid_context, asked.call};
  adopted = std::make_unique<HipDriverContext>(std::move(table), device);
  return asked;
}

DriverCode adopt_primary_hip_context(std::shared_ptr<const HipTable> table, HipDevice device,
                                     std::unique_ptr<DriverContext>& adopted) {
  adopted = std::make_unique<HipDriverContext>(std::move(table), device);
  return {hip_success, "hipSetDevice"};
}

}  // namespace penstock
