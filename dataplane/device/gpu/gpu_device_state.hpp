// SPDX-License-Identifier: Apache-2.0
// What the two halves of a GpuDevice know together, and its turn: what the owner made goes to the filler, what the
// filler has done is acted upon. See gpu_device.hpp for the invariants (Z1 ...).
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <unordered_map>

#include "dataplane/base/event_fd.hpp"
#include "dataplane/device/gpu/frame_filler.hpp"
#include "dataplane/device/gpu/gpu_frame_owner.hpp"

namespace penstock {

// Readable when one of some descriptors is, or when it was signalled itself.
class JointWake {
 public:
  static Result<JointWake> make(std::initializer_list<int> fds);
  void signal() const { own_.signal(); }
  void consume() const { own_.consume(); }
  int fd() const { return all_.get(); }

 private:
  JointWake(EventFd own, UniqueFd all) : own_(std::move(own)), all_(std::move(all)) {}

  EventFd own_;
  UniqueFd all_;
};

class GpuDeviceState {
 public:
  struct Frame {
    std::uint64_t mapped_by = 0;  // Incarnation of the filler.
    bool fillable = false;        // Mapped there to be filled.
    FenceId mapping{};            // Of its map by map_to_read, until that is answered.
    bool unmappable = false;      // That failed, and the filler has not been told to forget it.
    bool attached = false;
  };

  GpuDeviceState(std::unique_ptr<GpuFrameOwner> owner, std::unique_ptr<FrameFiller> filler,
                 JointWake owner_wake, JointWake writer_wake);

  void create(std::uint64_t tag);
  std::size_t reap(std::span<CreateDone> done);
  void destroy(FrameId frame);
  Result<FenceId> reached();
  // Maps the frame in the filler of now, if it is not. Errc::device when that is lost. If the driver refuses, what uses the
  // mapping fails, and the next use maps it anew.
  Result<> map_to_read(FrameId frame);
  Frame& at(FrameId frame);
  bool is_mapped(const Frame& frame) const { return frame.mapped_by == filler_->incarnation(); }

  GpuFrameOwner& owner() { return *owner_; }
  FrameFiller& filler() { return *filler_; }
  int owner_fd() const { return owner_wake_.fd(); }
  int writer_fd() const { return writer_wake_.fd(); }

 private:
  struct Zeroing {
    FenceId fence{};
    CreateDone creation;
  };
  // Of a frame, under way.
  struct FrameFence {
    FenceId fence{};
    FrameId frame{};
  };

  void poll();
  void pump();
  bool map_next();
  bool unmap_next();
  void hear_of_mapping(const FrameFence& mapped);
  bool forget_mapping_of(FrameId frame);
  void finish_zeroing(const Zeroing& zeroed);
  void begin_destruction(FrameId frame);
  void lose(Error error);
  void create_again(const CreateDone& creation);
  void answer(CreateDone creation);
  void fail(const CreateDone& creation, CreateResult result, Error error);

  const std::unique_ptr<GpuFrameOwner> owner_;
  const std::unique_ptr<FrameFiller> filler_;  // After the owner: its end unmaps what the owner made.
  const JointWake owner_wake_, writer_wake_;
  const std::uint64_t frame_bytes_;

  std::unordered_map<FrameId, Frame> frames_;  // Answered `created`, not destroyed.
  std::deque<CreateDone> made_;                // To be zeroed.
  std::deque<Zeroing> zeroing_;
  std::deque<FrameId> condemned_;  // To be unmapped.
  std::deque<FrameFence> unmapping_;
  std::deque<FrameFence> mapping_;  // To be read.
  std::deque<FrameId> unmapped_;    // Could not be mapped, which the filler is to forget.
  std::deque<CreateDone> answers_;
  FenceId reached_{};
  std::optional<Error> untold_loss_;
};

}  // namespace penstock
