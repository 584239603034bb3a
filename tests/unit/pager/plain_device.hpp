// SPDX-License-Identifier: Apache-2.0
// PlainDevice: memfds on the calling thread. Copies happen at once; their fences are reached when the test says so.
// Wrap it in FaultyDevice to have the rules of the seam checked.
#pragma once

#include <deque>
#include <unordered_map>

#include "dataplane/base/mapping.hpp"
#include "dataplane/device/device_memory.hpp"

namespace penstock::test {

class PlainDevice {
 public:
  struct Options {
    std::uint64_t frame_bytes = 64 * 1024;
    std::uint32_t frames = 64;
    bool addressable = true;     // Reads may go straight into frames.
    std::size_t copies_max = 8;  // Queued and not reached.
  };

  explicit PlainDevice(const Options& options) : options_(options), owner_(*this), writer_(*this) {}

  FrameOwner& owner() { return owner_; }
  FrameWriter& writer() { return writer_; }

  // Fences are reached from now on only by reach().
  void hold_fences() { fences_held_ = true; }
  void release_fences() { fences_held_ = false; }
  // The next `count` calls of share fail.
  void fail_shares(std::uint32_t count) { share_failures_ = count; }

  std::uint64_t frames_alive() const { return frames_.size(); }
  std::uint64_t copies() const { return raw(newest_); }

 private:
  struct Frame {
    UniqueFd file;
    Mapping memory;
  };

  class Owner final : public FrameOwner {
   public:
    explicit Owner(PlainDevice& device) : device_(device) {}
    DeviceLimits limits() const override;
    void create(std::uint64_t tag) override;
    std::size_t reap(std::span<CreateDone> done) override;
    void destroy(FrameId frame) override;
    Result<ExportedFrame> share(FrameId frame, FrameAccess access) override;
    int event_fd() const override { return -1; }

   private:
    PlainDevice& device_;
  };

  class Writer final : public FrameWriter {
   public:
    explicit Writer(PlainDevice& device) : device_(device) {}
    Result<> attach(FrameId) override { return {}; }
    void detach(FrameId) override {}
    Result<FenceId> copy(FrameId frame, std::uint64_t offset, std::span<const std::byte> source,
                         const CopyConversion& conversion) override;
    Result<FenceId> copy_frame(FrameId to, FrameId from) override;
    std::span<std::byte> address(FrameId frame) override;
    Result<FenceId> reached() override;
    int event_fd() const override { return -1; }

   private:
    PlainDevice& device_;
  };

  std::span<std::byte> bytes(FrameId frame) { return frames_.at(frame).memory.bytes(); }
  bool full() const { return raw(newest_) - raw(reached_) >= options_.copies_max; }

  const Options options_;
  Owner owner_;
  Writer writer_;
  std::unordered_map<FrameId, Frame> frames_;
  std::deque<CreateDone> created_;
  std::uint32_t last_frame_ = 0;
  FenceId newest_{}, reached_{};
  bool fences_held_ = false;
  std::uint32_t share_failures_ = 0;
};

}  // namespace penstock::test
