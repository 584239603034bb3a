// SPDX-License-Identifier: Apache-2.0
// The seam to a vendor's driver, for one GPU. Each function is one call of the driver (and what a quirk of its version
// asks for); it may block, and it may hang for ever. Results are written only on success.
//
// GpuDriver may be called from any thread. A DriverContext belongs to one thread at a time, which has
// called `enter`; only wait_event may run beside it, on a second thread that has entered too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "dataplane/base/unique_fd.hpp"
#include "dataplane/device/gpu/driver_code.hpp"
#include "dataplane/device/gpu/gpu_identity.hpp"

namespace penstock {

enum class MemoryHandle : std::uint64_t {};   // Physical memory, as this process refers to it.
enum class DeviceAddress : std::uint64_t {};  // Virtual, in this process.
enum class StreamHandle : std::uint64_t {};
enum class EventHandle : std::uint64_t {};

constexpr DeviceAddress operator+(DeviceAddress address, std::uint64_t bytes) {
  return DeviceAddress{static_cast<std::uint64_t>(address) + bytes};
}

enum class MappedRights : std::uint8_t { read, read_write };

struct GpuDescription {
  GpuIdentity identity;
  std::uint64_t total_bytes = 0;
  std::uint64_t granularity_bytes = 0;  // Of create and map; 0 without VMM.
  bool has_vmm = false;  // Memory can be made, exported as a descriptor and mapped page by page.
  std::string why_no_vmm;
  bool shares_host_memory = false;  // Its memory is the machine's.
  std::string architecture;         // "gfx90a", where the vendor tells; for reports.
  bool is_experimental =
      false;  // Its kind has open reports of wrong bytes, or nobody tells of any use of it.
  // Held by the process that makes a frame, the exported one included.
  std::uint32_t descriptors_per_frame = 1;
};

struct DeviceMemoryFigures {
  std::uint64_t free_bytes = 0;
  std::uint64_t total_bytes = 0;
};

class DriverContext {
 public:
  virtual ~DriverContext() = default;
  DriverContext(const DriverContext&) = delete;
  DriverContext& operator=(const DriverContext&) = delete;

  // Makes the context the calling thread's.
  virtual DriverCode enter() = 0;
  // The same, until leave: the thread's own one comes back. HIP knows no contexts there: whoever borrows the thread puts
  // its device back (ProgramStreams::set_current_device).
  virtual DriverCode enter_for_now() = 0;
  virtual void leave() = 0;
  // It is the calling thread's own.
  virtual bool is_current() = 0;
  virtual DriverCode memory_figures(DeviceMemoryFigures& figures) = 0;

  virtual DriverCode make_stream(StreamHandle& stream) = 0;
  virtual DriverCode destroy_stream(StreamHandle stream) = 0;
  virtual DriverCode synchronize(StreamHandle stream) = 0;
  virtual DriverCode make_event(EventHandle& event) = 0;
  virtual DriverCode destroy_event(EventHandle event) = 0;
  virtual DriverCode record_event(EventHandle event, StreamHandle stream) = 0;
  // Blocks without spinning until the work that the event was recorded behind has ended.
  virtual DriverCode wait_event(EventHandle event) = 0;
  // What is queued on the stream from now on runs after the event.
  virtual DriverCode stream_waits(StreamHandle stream, EventHandle event) = 0;

  virtual DriverCode copy_in(DeviceAddress to, const void* from, std::uint64_t bytes,
                             StreamHandle stream) = 0;
  virtual DriverCode copy_out(void* to, DeviceAddress from, std::uint64_t bytes, StreamHandle stream) = 0;
  virtual DriverCode copy_within(DeviceAddress to, DeviceAddress from, std::uint64_t bytes,
                                 StreamHandle stream) = 0;
  virtual DriverCode zero(DeviceAddress at, std::uint64_t bytes, StreamHandle stream) = 0;

  // Memory in one piece, of this process alone: for GPUs without virtual memory management. Freeing waits for the work
  // that is queued on the device.
  virtual DriverCode allocate(std::uint64_t bytes, DeviceAddress& at) = 0;
  virtual DriverCode free(DeviceAddress at) = 0;

  // Page-locked host memory, and page-locking of what the caller has.
  virtual DriverCode allocate_host(std::uint64_t bytes, void*& memory) = 0;
  virtual DriverCode free_host(void* memory) = 0;
  virtual DriverCode register_host(void* memory, std::uint64_t bytes) = 0;
  virtual DriverCode unregister_host(void* memory) = 0;
  // Where kernels see page-locked memory.
  virtual DriverCode device_address(void* memory, DeviceAddress& at) = 0;

  // Loads the device code of dataplane/kernels. 209 (no binary for this GPU) where the build has none for it: then the
  // host converts.
  virtual DriverCode load_kernels() = 0;
  // A launch of penstock_scatter over `count` pieces that lie where the device can read them. REQUIRES: loaded.
  virtual DriverCode launch_scatter(DeviceAddress pieces, std::uint32_t count, StreamHandle stream) = 0;
  // A launch of penstock_checksum over `count` tiles; it adds to `sums`, which it can write. REQUIRES: loaded.
  virtual DriverCode launch_checksum(DeviceAddress tiles, std::uint32_t count, DeviceAddress sums,
                                     StreamHandle stream) = 0;

 protected:
  DriverContext() = default;
};

// Of an address range for so many bytes: the largest power of two that divides them. REQUIRES: bytes > 0.
constexpr std::uint64_t natural_alignment(std::uint64_t bytes) { return bytes & (~bytes + 1); }

// For what must be given back: once more when the driver refuses.
template <class Call>
DriverCode insist(const Call& call) {
  const DriverCode first = call();
  return first.ok() ? first : call();
}

class GpuDriver {
 public:
  virtual ~GpuDriver() = default;
  GpuDriver(const GpuDriver&) = delete;
  GpuDriver& operator=(const GpuDriver&) = delete;

  virtual const GpuDescription& description() const = 0;

  // Need no context. Sizes are multiples of the granularity.
  virtual DriverCode create(std::uint64_t bytes, MemoryHandle& made) = 0;
  // The descriptor is close-on-exec. Export a handle once and lend the descriptor: some versions refuse a second time.
  virtual DriverCode export_fd(MemoryHandle handle, UniqueFd& exported) = 0;
  virtual DriverCode release(MemoryHandle handle) = 0;

  // `fd` stays the caller's, and stays open until access is set, unless imports_at_once().
  virtual DriverCode import_fd(int fd, MemoryHandle& imported) = 0;
  virtual bool imports_at_once() const = 0;
  // `alignment`: a power of two.
  virtual DriverCode reserve(std::uint64_t bytes, std::uint64_t alignment, DeviceAddress& at) = 0;
  virtual DriverCode map(DeviceAddress at, std::uint64_t bytes, MemoryHandle handle) = 0;
  virtual DriverCode set_access(DeviceAddress at, std::uint64_t bytes, MappedRights rights) = 0;
  // Whole mappings: neighbours at once where unmaps_several(), else one.
  virtual DriverCode unmap(DeviceAddress at, std::uint64_t bytes) = 0;
  virtual bool unmaps_several() const { return true; }
  virtual DriverCode free_range(DeviceAddress at, std::uint64_t bytes) = 0;

  // Costs device memory, a few hundred MiB on some GPUs: for the writer and the self-test alone. The driver outlives it.
  virtual DriverCode open_context(std::unique_ptr<DriverContext>& opened) = 0;
  // The calling thread's context as the program made it; it stays the program's, who may end it: to enter it answers 201
  // (invalid context) or 709 then. 201 where none is current, or another GPU's.
  virtual DriverCode adopt_context(std::unique_ptr<DriverContext>& adopted) = 0;
  // The GPU's primary one, which the runtimes of the vendors use, where something of this process has made it. Else 201.
  virtual DriverCode adopt_primary_context(std::unique_ptr<DriverContext>& adopted) = 0;

 protected:
  GpuDriver() = default;
};

}  // namespace penstock
