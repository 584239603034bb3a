// SPDX-License-Identifier: Apache-2.0
// FaultyDevice: wraps any device, injects faults, and aborts (CHECK) when its user breaks a rule of the seam:
//
//  F1 Only frames that are alive are named; each is destroyed once.
//  F2 destroy and detach only when the caller has seen every fence of the frame in reached(), share when it has seen
//     those of what fills it.
//  F3 Copies go into attached frames that are not published read-only, inside the frame. copy_frame: both attached.
//  F4 A frame is published with one access for its whole life, and attached at most once at a time.
//  F5 A source is added once, and dropped once, when the caller has seen the fences of all copies from it.
//
// The seam's functions are called from one thread, as always. Faults may be set from any thread.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "dataplane/base/event_fd.hpp"
#include "dataplane/device/device_memory.hpp"

namespace penstock {

class FaultyDevice {
 public:
  // As a GPU is: nobody but the writer reaches the frames.
  struct Options {
    bool addressable = true;
  };

  // REQUIRES: both outlive this object.
  FaultyDevice(FrameOwner& owner, FrameWriter& writer) : FaultyDevice(owner, writer, Options{}) {}
  FaultyDevice(FrameOwner& owner, FrameWriter& writer, const Options& options);

  FrameOwner& owner() { return owner_; }
  FrameWriter& writer() { return writer_; }

  // The next `creations` succeed if the device can; later ones are answered `result` until heal_creation().
  void refuse_creation_after(std::uint64_t creations, CreateResult result = CreateResult::exhausted);
  void heal_creation();
  // Creations from now on are not answered, until release_creations() hands them to the device.
  void hold_creations();
  void release_creations();
  // No fence is reached any more, until release_fences() or, if given, the `polls`-th call of reached().
  void hold_fences(std::optional<std::uint64_t> polls = std::nullopt);
  void release_fences();
  // The writer process is gone, until replace_writer(): whatever was in flight is undefined.
  void lose_writer();
  // It is queued, and nothing is copied.
  void fail_next_copy_of_a_frame(Error error);
  // The device was gone, and works again before anybody looks.
  void lose_contents();
  // Another one has been started: what was attached before takes no more copies.
  void replace_writer();

  std::uint64_t frames_alive() const;
  std::uint64_t creations_held() const;
  std::uint64_t copies() const;  // That were queued, ever.

 private:
  struct FrameState {
    FenceId last_fence{};
    FenceId last_write{};
    std::optional<FrameAccess> published;
    bool attached = false;
    bool of_lost_writer = false;
  };

  // What both halves know. Guarded by mutex.
  struct State {
    State(std::uint64_t bytes, FrameWriter& device, bool reachable)
        : frame_bytes(bytes), device_writer(device), addressable(reachable) {}
    FrameState& alive(FrameId frame);
    // A lost writer touches no memory any more: waits until the wrapped one doesn't either.
    Error lost() const;
    bool idle(const FrameState& frame) const { return writer_lost || frame.last_fence <= told; }
    bool filled(const FrameState& frame) const { return writer_lost || frame.last_write <= told; }

    const std::uint64_t frame_bytes;
    FrameWriter& device_writer;
    const bool addressable;
    mutable std::mutex mutex;
    std::unordered_map<std::uint32_t, FrameState> frames;
    std::uint64_t copies = 0;
    std::optional<Error> copy_error;  // Of the next copy of a frame.
    std::map<FenceId, Error> failed_copies;
    struct Source {
      std::span<const std::byte> memory;
      FenceId last_copy{};
    };
    std::map<SourceId, Source> sources;
    FenceId newest{};  // The newest fence that copy() has returned.
    FenceId told{};    // The newest fence that reached() has returned.
    bool writer_lost = false;
    bool fences_held = false;
    std::uint64_t polls_to_release = 0;  // 0 = only release_fences() does.
    bool creations_held = false;
    std::vector<std::uint64_t> held_tags;
    std::optional<std::uint64_t> creations_left;
    CreateResult refusal = CreateResult::exhausted;
  };

  // A descriptor that is readable when the device's is, or when this double has something to tell.
  class Wake {
   public:
    explicit Wake(int device_fd);
    void signal() const { own_.signal(); }
    void consume() const { own_.consume(); }
    int fd() const { return both_.get(); }

   private:
    EventFd own_;
    UniqueFd both_;
  };

  class Owner final : public FrameOwner {
   public:
    Owner(State& state, FrameOwner& device) : state_(state), device_(device), wake_(device.event_fd()) {}
    DeviceLimits limits() const override;
    void create(std::uint64_t tag) override;
    std::size_t reap(std::span<CreateDone> done) override;
    void destroy(FrameId frame) override;
    Result<ExportedFrame> share(FrameId frame, FrameAccess access) override;
    std::uint64_t ready_frames() const override { return device_.ready_frames(); }
    std::uint64_t contents_losses() const override { return losses_; }
    int event_fd() const override { return wake_.fd(); }
    void wake() const { wake_.signal(); }
    void lose_contents() { ++losses_; }

   private:
    void forward(std::uint64_t tag);

    State& state_;
    FrameOwner& device_;
    Wake wake_;
    std::deque<CreateDone> answers_;
    std::uint64_t losses_ = 0;
  };

  class Writer final : public FrameWriter {
   public:
    Writer(State& state, FrameWriter& device) : state_(state), device_(device), wake_(device.event_fd()) {}
    Result<> add_source(SourceId source, std::span<std::byte> memory, int fd) override;
    FenceId drop_source(SourceId source) override;
    Result<> attach(FrameId frame) override;
    void detach(FrameId frame) override;
    Result<FenceId> copy(FrameId frame, std::uint64_t offset, std::span<const std::byte> source,
                         const CopyConversion& conversion) override;
    Result<FenceId> copy_frame(FrameId to, FrameId from) override;
    std::optional<Error> take_copy_failure(FenceId fence) override;
    Result<FenceId> sum(FrameId frame) override;
    std::optional<Result<std::uint64_t>> take_sum(FenceId fence) override;
    std::span<std::byte> address(FrameId frame) override;
    Result<FenceId> reached() override;
    int event_fd() const override { return wake_.fd(); }
    void wake() const { wake_.signal(); }

   private:
    State& state_;
    FrameWriter& device_;
    Wake wake_;
  };

  State state_;
  Owner owner_;
  Writer writer_;
};

}  // namespace penstock
