// SPDX-License-Identifier: Apache-2.0
#include "service/client/gpu_mapper.hpp"

#include <algorithm>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>

#include "dataplane/base/check.hpp"
#include "dataplane/base/resource_limits.hpp"
#include "dataplane/base/unique_fd.hpp"

namespace penstock {
namespace {

Result<> result_of(DriverCode code) {
  if (code.ok()) return {};
  return to_error(code);
}

bool lacks_descriptors() { return !UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC)); }

}  // namespace

// The program's choice of device in this thread outlives our calls, and so do captures of its streams, and its last error.
class GpuMapper::DeviceKept {
 public:
  explicit DeviceKept(ProgramStreams& streams)
      : errors_(streams), relaxed_(streams), streams_(streams), device_(streams.current_device()) {}
  DeviceKept(const DeviceKept&) = delete;
  DeviceKept& operator=(const DeviceKept&) = delete;
  ~DeviceKept() { streams_.set_current_device(device_); }

 private:
  const OwnErrors errors_;  // The first, so that it ends last.
  const RelaxedCaptures relaxed_;
  ProgramStreams& streams_;
  const int device_;
};

Result<std::unique_ptr<PageMapper>> GpuMapper::create(const ProcessGpu& gpu, std::uint32_t pages,
                                                      std::uint64_t page_bytes) {
  const DeviceKept kept(*gpu.streams);
  if (page_bytes % gpu.driver->description().granularity_bytes != 0)
    return Error{Errc::invalid, 0, "the size of pages and the granularity of the GPU"};
  DeviceAddress base{};
  TRY(result_of(gpu.driver->reserve(std::max(pages, 1u) * page_bytes, natural_alignment(page_bytes), base)));
  return std::unique_ptr<PageMapper>(new GpuMapper(gpu, base, pages, page_bytes));
}

GpuMapper::GpuMapper(const ProcessGpu& gpu, DeviceAddress base, std::uint32_t pages, std::uint64_t page_bytes)
    : gpu_(gpu),
      base_(base),
      page_bytes_(page_bytes),
      pages_(pages),
      work_(gpu.streams, gpu.contexts, pages) {}

GpuMapper::~GpuMapper() {
  const DeviceKept kept(*gpu_.streams);
  const auto pages = static_cast<std::uint32_t>(pages_.size());
  if (!work_.wait()) {
    release_handles({0, pages});
    return;
  }
  if (!unmap_all()) return;
  static_cast<void>(
      insist([&] { return gpu_.driver->free_range(base_, std::max(pages, 1u) * page_bytes_); }));
}

Result<> GpuMapper::unmap_all() {
  const DeviceKept kept(*gpu_.streams);
  const auto pages = static_cast<std::uint32_t>(pages_.size());
  Result<> all;
  for (std::uint32_t first = 0; first < pages; ++first) {
    if (!pages_[first].mapped) continue;
    std::uint32_t end = first;
    while (end < pages && pages_[end].mapped) ++end;
    release_handles({first, end - first});
    if (const Result<> done = unmap_run({first, end - first}); !done) all = done;
    first = end;
  }
  return all;
}

Result<> GpuMapper::unmap_run(PageSpan run) {
  const auto unmap = [&](std::uint32_t page, std::uint32_t count) {
    const DriverCode code = insist([&] { return gpu_.driver->unmap(at(page), count * page_bytes_); });
    for (std::uint32_t i = 0; code.ok() && i < count; ++i) pages_[page + i].mapped = false;
    return result_of(code);
  };
  if (gpu_.driver->unmaps_several() && unmap(run.first, run.count)) return {};
  Result<> all;
  for (std::uint32_t page = run.first; page != run.end(); ++page) {
    if (const Result<> done = unmap(page, 1); !done) all = done;
  }
  return all;
}

std::byte* GpuMapper::address() const {
  return reinterpret_cast<std::byte*>(static_cast<std::uintptr_t>(base_));
}

Result<> GpuMapper::place(std::uint32_t page, int fd, Access) {
  const DeviceKept kept(*gpu_.streams);
  MemoryHandle handle{};
  TRY(result_of(gpu_.driver->import_fd(fd, handle)));
  const auto give_up = [&](DriverCode code) -> Result<> {
    static_cast<void>(insist([&] { return gpu_.driver->release(handle); }));
    return to_error(code);
  };
  if (pages_[page].mapped) {
    const DriverCode code = insist([&] { return gpu_.driver->unmap(at(page), page_bytes_); });
    if (!code.ok()) return give_up(code);
    pages_[page].mapped = false;
  }
  if (const DriverCode code = gpu_.driver->map(at(page), page_bytes_, handle); !code.ok())
    return give_up(code);
  pages_[page].mapped = true;
  pages_[page].imported = handle;
  return {};
}

void GpuMapper::release_handles(PageSpan span) {
  for (std::uint32_t page = span.first; page != span.end(); ++page) {
    if (const auto handle = std::exchange(pages_[page].imported, std::nullopt)) {
      static_cast<void>(insist([&] { return gpu_.driver->release(*handle); }));
    }
  }
}

Result<> GpuMapper::finish_run(PageSpan placed, Access access) {
  const DeviceKept kept(*gpu_.streams);
  const MappedRights rights = access == Access::read ? MappedRights::read : MappedRights::read_write;
  const DriverCode code = gpu_.driver->set_access(at(placed.first), placed.count * page_bytes_, rights);
  release_handles(placed);
  return result_of(code);
}

Failure GpuMapper::refusal(const Error& error) const {
  const std::string told = fmt::format("the GPU's driver refused to map a page: {} answered {} ({})",
                                       error.operation, driver_code_name(error.native), error.native);
  // Some versions call it out of memory.
  if (lacks_descriptors()) {
    const auto limit = open_files_limit();
    return {FailureKind::fd_limit,
            fmt::format("this process is out of descriptors (RLIMIT_NOFILE is {}): {}",
                        limit ? limit->soft : 0, told),
            "raise its RLIMIT_NOFILE"};
  }
  const bool short_of_memory = classify(error.native) == DriverClass::pressure;
  return {short_of_memory ? FailureKind::exhausted : FailureKind::device_unhealthy, told,
          "is it the driver and the GPU that the service uses?"};
}

Result<> GpuMapper::remove(std::uint32_t page) {
  if (!pages_[page].mapped) return {};
  const DeviceKept kept(*gpu_.streams);
  TRY(result_of(insist([&] { return gpu_.driver->unmap(at(page), page_bytes_); })));
  pages_[page].mapped = false;
  return {};
}

}  // namespace penstock
