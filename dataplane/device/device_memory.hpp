// SPDX-License-Identifier: Apache-2.0
// The seam to device memory, cut by role. Implementations: host; later cuda and hip, whose writer is another process.
//
// A frame is physical memory of the device's frame size. A fence marks work already queued on the device. Nothing here
// waits for the device: creation, copies and loss are answered later, through reap and reached.
// Not thread-safe: every call comes from that device's dataplane thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "dataplane/base/ids.hpp"
#include "dataplane/base/result.hpp"
#include "dataplane/base/unique_fd.hpp"
#include "dataplane/core/dtype.hpp"

namespace penstock {

struct DeviceLimits {
  std::uint64_t frame_bytes = 0;
  std::uint64_t capacity_bytes = 0;
  std::uint64_t tensor_alignment = 1;   // 512 on GPUs; on host memory each dtype's own size is enough (D8).
  bool frames_are_addressable = false;  // FrameWriter::address works: reads may go straight into a frame.
};

// Who may do what with an exported frame.
enum class FrameAccess : std::uint8_t {
  shared_read_only,  // Sealed against every writer but the owner's present mapping; no more copies are queued after it.
  private_writable,  // One client maps it read-write.
};

// A frame's descriptor on its way to a client: made for this export, or the owner's own, which lives as long as the frame.
class ExportedFrame {
 public:
  explicit ExportedFrame(UniqueFd made) : made_(std::move(made)), fd_(made_.get()) {}
  static ExportedFrame lent(int fd) { return ExportedFrame(fd); }
  int get() const { return fd_; }

 private:
  explicit ExportedFrame(int fd) : fd_(fd) {}

  UniqueFd made_;
  int fd_;
};

enum class CreateResult : std::uint8_t {
  created,
  exhausted,    // The capacity is used up by frames that are alive, or the device has no memory left.
  no_headroom,  // The HeadroomSource has less than a frame: making one could kill the process.
  fd_limit,     // No descriptor is left for it (RLIMIT_NOFILE, or the system's table of files).
  lost,         // The device is gone.
};
struct CreateDone {
  std::uint64_t tag = 0;
  CreateResult result = CreateResult::created;
  FrameId frame{};
  std::int32_t native = 0;  // errno, CUresult or hipError_t; for the log only.
};

// Owns physical memory. Needs no driver context, so a fault in a client cannot take it down.
class FrameOwner {
 public:
  virtual ~FrameOwner() = default;
  FrameOwner(const FrameOwner&) = delete;
  FrameOwner& operator=(const FrameOwner&) = delete;

  virtual DeviceLimits limits() const = 0;
  // Queues the creation of one frame, zero-filled. Answered exactly once through reap, maybe at once.
  virtual void create(std::uint64_t tag) = 0;
  // Fills `done` and returns how many; never blocks.
  virtual std::size_t reap(std::span<CreateDone> done) = 0;
  // REQUIRES: every importer has acknowledged or died, no fence is pending on the frame. The memory is given back; a
  // frame that was exported is never used again for other content (D1).
  virtual void destroy(FrameId frame) = 0;
  // Frames that are made ahead and nobody's; for figures only.
  virtual std::uint64_t ready_frames() const { return 0; }
  // Publishes: after the last fence of what fills it; copies may read it all the while. The caller sends the descriptor at
  // once.
  virtual Result<ExportedFrame> share(FrameId frame, FrameAccess access) = 0;
  // How often the device was gone, and with it what its frames held. It may work again before anybody looks.
  virtual std::uint64_t contents_losses() const { return 0; }
  // Readable when reap would return something. May be -1 when creation always answers at once.
  virtual int event_fd() const = 0;

 protected:
  FrameOwner() = default;
};

// Conversion of dtypes on the way into a frame (assembled tables). bytes copied as they are when stored == wanted.
struct CopyConversion {
  Dtype stored = Dtype::u8;
  Dtype wanted = Dtype::u8;
  float scale = 1.0f;
};

// Fills frames. May live in a process of its own that can be killed.
class FrameWriter {
 public:
  virtual ~FrameWriter() = default;
  FrameWriter(const FrameWriter&) = delete;
  FrameWriter& operator=(const FrameWriter&) = delete;

  // Once, before the first copy: where sources of copies will lie; `memory` is a shared mapping of `fd`. For writers that
  // are another process or register the memory with a driver.
  virtual Result<> use_staging(std::span<std::byte> memory, int fd) {
    static_cast<void>(memory), static_cast<void>(fd);
    return {};
  }

  // More memory that copies may come from: `memory` is a shared mapping of `fd`; both stay until the fence of drop_source.
  // Errc::exhausted: no descriptor is left, nothing was added.
  virtual Result<> add_source(SourceId source, std::span<std::byte> memory, int fd) {
    static_cast<void>(source), static_cast<void>(memory), static_cast<void>(fd);
    return {};
  }
  // REQUIRES: added, and no fence is pending on a copy from it. At the fence this writer maps it no more. After a loss of
  // the writer that fence may never be reached: nobody maps it then.
  virtual FenceId drop_source(SourceId source) {
    static_cast<void>(source);
    return {};
  }

  virtual Result<> attach(FrameId frame) = 0;
  virtual void detach(FrameId frame) = 0;  // REQUIRES: no fence pending on the frame.
  // Queues a copy of a slot's bytes; `source` stays valid until the fence is reached, and lies in the staging memory
  // or in a source if use_staging was called. Errc::busy when the queue is full.
  virtual Result<FenceId> copy(FrameId frame, std::uint64_t offset, std::span<const std::byte> source,
                               const CopyConversion& conversion) = 0;
  // Whole frame to whole frame (make private). REQUIRES: both attached.
  virtual Result<FenceId> copy_frame(FrameId to, FrameId from) = 0;
  // After the fence of a copy of either kind: why nothing was copied, once. The writer lives, and both frames are as before.
  virtual std::optional<Error> take_copy_failure(FenceId fence) {
    static_cast<void>(fence);
    return std::nullopt;
  }
  // Queues the checksum (dataplane/kernels/convert.hpp) of an attached frame, as it is behind the copies queued before.
  // One at a time: Errc::busy. Errc::unsupported: frames are addressable, or nobody can.
  virtual Result<FenceId> sum(FrameId frame) {
    static_cast<void>(frame);
    return Error{Errc::unsupported, 0, "checksum of a frame"};
  }
  // The answer to sum, once; nothing before its fence. Errc::device: the writer was lost before.
  virtual std::optional<Result<std::uint64_t>> take_sum(FenceId fence) {
    static_cast<void>(fence);
    return Error{Errc::unsupported, 0, "checksum of a frame"};
  }
  // What is queued may wait for this, or for reached().
  virtual void flush() {}
  // Host memory only: where reads may write directly. Empty on devices that are not addressable.
  virtual std::span<std::byte> address(FrameId frame) = 0;
  // The newest fence reached; polls, never waits. Errc::device when the writer is lost: every frame with a fence not
  // reached is undefined and must be destroyed; frames attached before take no more copies. Another writer may follow:
  // after at least one such error this succeeds again, with a fence above all that were lost. Errc::closed: none
  // for now, nor can frames be made; it may succeed again later.
  virtual Result<FenceId> reached() = 0;
  // Readable when reached() may have moved.
  virtual int event_fd() const = 0;

 protected:
  FrameWriter() = default;
};

}  // namespace penstock
