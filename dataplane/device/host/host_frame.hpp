// SPDX-License-Identifier: Apache-2.0
// HostFrame: one frame of host memory, a populated memfd and the owner's only mapping of it.
//
// Sealed against shrinking and growing from its first moment, so that no holder of the descriptor can make
// another's mapping fault. Publication adds the seals of seal(); the mapping here keeps writing, no later one
// can.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "dataplane/base/lock_memory.hpp"
#include "dataplane/base/mapping.hpp"
#include "dataplane/base/result.hpp"
#include "dataplane/base/unique_fd.hpp"
#include "dataplane/device/device_memory.hpp"

namespace penstock {

enum class HostPages : std::uint8_t {
  huge,   // 2 MiB pages, made by MADV_COLLAPSE.
  small,  // 4 KiB pages.
};

class HostFrame {
 public:
  HostFrame() = default;

  // Zero-filled memory, all of it present. Takes 0.5 to 20 ms: not for the dataplane thread. With
  // HostPages::huge it falls back to small pages where the kernel has no huge ones. REQUIRES: bytes is a
  // multiple of the page size. Errors, by `native`: EMFILE and ENFILE no descriptor; EBUSY the memory cgroup
  // refused the charge; else no memory.
  static Result<HostFrame> make(std::uint64_t bytes, HostPages wanted);

  // Keeps it in memory until its end.
  Result<> lock() const { return lock_memory(mapping_); }
  // Adds what `access` forbids to every later holder of the descriptor. Once per frame.
  Result<> seal(FrameAccess access) const;
  int fd() const { return file_.get(); }

  std::span<std::byte> bytes() const { return mapping_.bytes(); }
  HostPages pages() const { return pages_; }
  explicit operator bool() const { return static_cast<bool>(mapping_); }

 private:
  HostFrame(UniqueFd file, Mapping mapping) : file_(std::move(file)), mapping_(std::move(mapping)) {}
  Result<> populate(HostPages wanted);

  UniqueFd file_;
  Mapping mapping_;
  HostPages pages_ = HostPages::small;
};

}  // namespace penstock
