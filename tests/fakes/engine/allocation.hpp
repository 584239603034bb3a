// SPDX-License-Identifier: Apache-2.0
// Handles of physical memory, made here or imported. A handle holds one reference; a mapping holds its own, through the
// kernel, so that releasing a handle early is fine. Guarded by the engine's lock.
#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "dataplane/base/unique_fd.hpp"
#include "dataplane/device/cuda/cuda_abi.h"
#include "tests/fakes/engine/frame.hpp"

namespace penstock::fake {

struct Allocation {
  UniqueFd fd;
  FrameInfo info;
  int exported = -1;       // The first descriptor given out, for runtimes that want it kept open.
  int imported_from = -1;  // The descriptor that came in, likewise.
};

class Handles {
 public:
  using Value = std::uint64_t;

  CudaResult create(std::uint64_t size, const CudaMemProperties& properties, std::uint64_t flags,
                    Value* handle);
  CudaResult release(Value handle);
  CudaResult export_fd(Value handle, int type, std::uint64_t flags, int* fd);
  CudaResult import_fd(int fd, int type, Value* handle);
  // Dies of a handle that is unknown or was released.
  std::shared_ptr<Allocation> find(Value handle, const char* call) const;
  std::uint64_t count() const { return live_.size(); }

 private:
  Value insert(std::shared_ptr<Allocation> allocation);

  std::map<Value, std::shared_ptr<Allocation>> live_;
  Value last_ = 0x70000;
};

// Whether the properties can be had at all: pinned memory of a device of this process.
CudaResult check_properties(const CudaMemProperties& properties);

}  // namespace penstock::fake
