// SPDX-License-Identifier: Apache-2.0
// HostedFiller: what penstock-writer drives, one per process. Implementations: host memory; a GPU's context.
//
// Fences are its own: each function that queues work returns the newest one, of a counter that never falls. Work is done
// in the order of the calls, or looks as if it were. One thread. An Errc::device ends the process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "dataplane/base/ids.hpp"
#include "dataplane/base/result.hpp"
#include "dataplane/base/unique_fd.hpp"
#include "dataplane/device/device_memory.hpp"

namespace penstock {

class HostedFiller {
 public:
  enum class Use : std::uint8_t { fill, read };  // fill: zeroed first.

  virtual ~HostedFiller() = default;
  HostedFiller(const HostedFiller&) = delete;
  HostedFiller& operator=(const HostedFiller&) = delete;

  // The memory that copies come from, mapped for the life of the filler; to be registered with a driver. Once.
  virtual Result<> use_staging(std::span<std::byte> staging) = 0;

  // Errc::busy of all below: nothing was done; try again when event_fd() is readable. map: any other error but
  // Errc::device means that this frame can't be mapped.
  virtual Result<FenceId> map(FrameId frame, UniqueFd memory, std::uint64_t bytes, Use use) = 0;
  // REQUIRES: mapped, no fence of it is pending.
  virtual Result<FenceId> unmap(FrameId frame) = 0;
  // REQUIRES: mapped to be filled; the bytes lie in the staging memory.
  virtual Result<FenceId> copy(FrameId frame, std::uint64_t offset, std::span<const std::byte> source,
                               const CopyConversion& conversion) = 0;
  virtual Result<FenceId> copy_frame(FrameId to, FrameId from) = 0;
  virtual Result<FenceId> checksum(FrameId frame) = 0;
  // Hands queued work to the device; called when no more commands are at hand.
  virtual Result<> flush() { return {}; }

  virtual Result<FenceId> reached() = 0;
  // Of a checksum whose fence is reached; once.
  virtual std::uint64_t take_checksum(FenceId fence) = 0;
  // Readable when reached() may have moved; -1 when everything is done as it is asked for.
  virtual int event_fd() const = 0;
  // Of the device; 0 when unknown.
  virtual std::uint64_t free_bytes() = 0;

 protected:
  HostedFiller() = default;
};

}  // namespace penstock
