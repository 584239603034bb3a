// SPDX-License-Identifier: Apache-2.0
#include "tests/fakes/engine/allocation.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "tests/fakes/engine/die.hpp"
#include "tests/fakes/engine/ledger.hpp"
#include "tests/fakes/engine/settings.hpp"

namespace penstock::fake {
namespace {

bool is_still_open(int fd, std::uint64_t inode) {
  const std::optional<FrameInfo> info = frame_of(fd);
  return info && info->inode == inode;
}

}  // namespace

CudaResult check_properties(const CudaMemProperties& properties) {
  if (properties.type != cuda_mem_allocation_pinned) return cuda_error_invalid_value;
  if (properties.location.type != cuda_mem_location_device) return cuda_error_invalid_value;
  if ((properties.handle_types & ~cuda_mem_handle_posix_fd) != 0) return cuda_error_not_supported;
  if (properties.win32_meta_data != nullptr) return cuda_error_invalid_value;
  if (std::any_of(std::begin(properties.reserved), std::end(properties.reserved),
                  [](unsigned char byte) { return byte != 0; })) {
    return cuda_error_invalid_value;
  }
  const int ordinal = properties.location.id;
  if (ordinal < 0 || ordinal >= static_cast<int>(settings().visible.size())) return cuda_error_invalid_device;
  return cuda_success;
}

Handles::Value Handles::insert(std::shared_ptr<Allocation> allocation) {
  // Odd steps: a handle is no index and no address.
  last_ += 0x11;
  live_.emplace(last_, std::move(allocation));
  return last_;
}

std::shared_ptr<Allocation> Handles::find(Value handle, const char* call) const {
  const auto found = live_.find(handle);
  if (found == live_.end()) {
    die("%s: the handle %#llx is unknown or was released", call, static_cast<unsigned long long>(handle));
  }
  return found->second;
}

CudaResult Handles::create(std::uint64_t size, const CudaMemProperties& properties, std::uint64_t flags,
                           Value* handle) {
  if (const CudaResult bad = check_properties(properties)) return bad;
  if (handle == nullptr || flags != 0 || size == 0 || size % settings().granularity_minimum != 0) {
    return cuda_error_invalid_value;
  }
  auto allocation = std::make_shared<Allocation>();
  allocation->info = {.inode = 0,
                      .bytes = size,
                      .device = settings().visible[static_cast<std::size_t>(properties.location.id)],
                      .handle_types = properties.handle_types};
  // Out of descriptors reads as out of memory, as it does where each handle is a descriptor (ROCm 7).
  if (Ledger::instance().make(allocation->info, allocation->fd) != Ledger::Booking::made) {
    return cuda_error_out_of_memory;
  }
  *handle = insert(std::move(allocation));
  return cuda_success;
}

CudaResult Handles::release(Value handle) {
  find(handle, "release");
  live_.erase(handle);
  return cuda_success;
}

CudaResult Handles::export_fd(Value handle, int type, std::uint64_t flags, int* fd) {
  const std::shared_ptr<Allocation> allocation = find(handle, "export");
  if (settings().quirks.no_sharing) return cuda_error_not_supported;
  if (fd == nullptr || flags != 0 || type != cuda_mem_handle_posix_fd) return cuda_error_invalid_value;
  // The type must have been asked for when the memory was made.
  if ((allocation->info.handle_types & type) == 0) return cuda_error_invalid_value;
  if (settings().quirks.deferred_import && allocation->exported >= 0 &&
      !is_still_open(allocation->exported, allocation->info.inode)) {
    return cuda_error_invalid_value;
  }
  // Without FD_CLOEXEC, as drivers give it: setting it is the caller's part.
  const int made = ::fcntl(allocation->fd.get(), F_DUPFD, 0);
  if (made < 0) return cuda_error_not_supported;
  if (allocation->exported < 0) allocation->exported = made;
  *fd = made;
  return cuda_success;
}

CudaResult Handles::import_fd(int fd, int type, Value* handle) {
  if (settings().quirks.no_sharing) return cuda_error_not_supported;
  if (handle == nullptr || type != cuda_mem_handle_posix_fd) return cuda_error_invalid_value;
  const std::optional<FrameInfo> info = frame_of(fd);
  if (!info || (info->handle_types & type) == 0) return cuda_error_invalid_value;
  const std::vector<int>& visible = settings().visible;
  if (std::find(visible.begin(), visible.end(), info->device) == visible.end())
    return cuda_error_not_supported;
  auto allocation = std::make_shared<Allocation>();
  allocation->fd = UniqueFd(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (!allocation->fd) return cuda_error_out_of_memory;
  allocation->info = *info;
  allocation->imported_from = fd;
  Ledger::instance().count(*info);
  *handle = insert(std::move(allocation));
  return cuda_success;
}

}  // namespace penstock::fake
