// SPDX-License-Identifier: Apache-2.0
// FrameFiller: the writer's half of a GPU as GpuDevice needs it: FrameWriter's copies, and how a frame gets there and
// leaves. Implementations: GpuFrameWriter, in the process that holds the context, and that process's stand-in in the
// service. One thread calls; nothing here waits for the GPU.
//
// Everything is queued, in order, and has a fence; a reached fence implies all earlier ones. Errc::busy when the queue is
// full: try again after a fence. Errc::device when the filler is lost, told by reached() at least once for each loss: what
// had a fence not reached is undefined. The lost one may go on writing to what it had mapped to fill, until its process is
// gone: such a frame is never used for another content. Another filler may follow by itself once it is, with a new
// incarnation, no frame mapped, and fences above all earlier ones. Errc::closed: none will.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "dataplane/base/ids.hpp"
#include "dataplane/base/result.hpp"
#include "dataplane/device/device_memory.hpp"

namespace penstock {

class FrameFiller {
 public:
  enum class Use : std::uint8_t { fill, read };  // fill: zeroed first.

  virtual ~FrameFiller() = default;
  FrameFiller(const FrameFiller&) = delete;
  FrameFiller& operator=(const FrameFiller&) = delete;

  // Where the sources of copies lie; `memory` is a shared mapping of `fd` and outlives the filler. Once.
  virtual Result<> use_staging(std::span<std::byte> memory, int fd) = 0;

  // More memory for sources, as FrameWriter's. Both have a fence.
  virtual Result<FenceId> add_source(SourceId source, std::span<std::byte> memory, int fd) = 0;
  virtual Result<FenceId> drop_source(SourceId source) = 0;

  // `fd` is the caller's and is used until this returns. At the fence the frame is mapped, and zero if it is to be filled.
  virtual Result<FenceId> map(FrameId frame, int fd, std::uint64_t bytes, Use use) = 0;
  // After the fence of a map: its error, once, if it failed. Then the frame is to be unmapped. What is queued for it
  // meanwhile fails, at once or at its fence.
  virtual std::optional<Error> take_map_failure(FenceId fence) = 0;
  // After the fence of a copy: its error, once, if nothing was copied because a frame of it could not be mapped.
  virtual std::optional<Error> take_copy_failure(FenceId fence) {
    static_cast<void>(fence);
    return std::nullopt;
  }
  // REQUIRES: mapped, no fence pending on it. At the fence nothing of it is mapped any more.
  virtual Result<FenceId> unmap(FrameId frame) = 0;

  // As FrameWriter's, for frames mapped to be filled; `from` may be mapped to be read.
  virtual Result<FenceId> copy(FrameId frame, std::uint64_t offset, std::span<const std::byte> source,
                               const CopyConversion& conversion) = 0;
  virtual Result<FenceId> copy_frame(FrameId to, FrameId from) = 0;
  // The checksum (dataplane/kernels/convert.hpp) of a whole mapped frame, taken behind what is queued for it. A few
  // at a time: Errc::busy.
  virtual Result<FenceId> checksum(FrameId frame) {
    static_cast<void>(frame);
    return Error{Errc::unsupported, 0, "checksum"};
  }
  // Nothing before that fence; then once. Errc::device: the filler was lost before.
  virtual std::optional<Result<std::uint64_t>> take_checksum(FenceId fence) {
    static_cast<void>(fence);
    return Error{Errc::unsupported, 0, "checksum"};
  }
  virtual void flush() {}

  virtual Result<FenceId> reached() = 0;
  virtual int event_fd() const = 0;
  // Which filler takes what is queued now; grows with each one.
  virtual std::uint64_t incarnation() const = 0;

 protected:
  FrameFiller() = default;
};

}  // namespace penstock
