// SPDX-License-Identifier: Apache-2.0
// RemoteHostDevice: frames of host memory, filled by a penstock-writer process, as those of a GPU are: the service can't
// address them, copies come from staging memory.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "dataplane/base/mapping.hpp"
#include "dataplane/device/host/host_frame_owner.hpp"
#include "dataplane/writer/remote_frame_writer.hpp"

namespace penstock::test {

// build/<preset>/bin/NAME, next to the tests that ctest runs.
std::string program_path(const std::string& name);

class RemoteHostDevice {
 public:
  // Without staging memory; aborts when it can't be made.
  RemoteHostDevice(const HostFrameOptions& frames, HeadroomSource& headroom,
                   const RemoteFillerOptions& options = {}, const std::string& kind = "host");
  // Staging memory of the device's own, as a pager would bring it.
  void make_staging(std::uint64_t bytes);
  // Puts the bytes into the staging memory, behind what was put there before.
  std::span<const std::byte> stage(std::span<const std::byte> bytes);

  FrameOwner& owner() { return owner_; }
  HostFrameOwner& host_owner() { return *frames_; }
  RemoteFrameWriter& writer() { return *writer_; }
  const WriterStats& stats() { return writer_->filler().stats(); }

 private:
  class Owner final : public FrameOwner {
   public:
    explicit Owner(RemoteHostDevice& device) : device_(device), frames_(*device.frames_) {}
    DeviceLimits limits() const override;
    void create(std::uint64_t tag) override { frames_.create(tag); }
    std::size_t reap(std::span<CreateDone> done) override { return frames_.reap(done); }
    // The seam doesn't ask for a detach before.
    void destroy(FrameId frame) override {
      if (device_.writer_->attached(frame)) device_.writer_->detach(frame);
      frames_.destroy(frame);
    }
    Result<ExportedFrame> share(FrameId frame, FrameAccess access) override {
      return frames_.share(frame, access);
    }
    int event_fd() const override { return frames_.event_fd(); }

   private:
    RemoteHostDevice& device_;
    HostFrameOwner& frames_;
  };

  std::unique_ptr<HostFrameOwner> frames_;
  Owner owner_;
  UniqueFd staging_file_;
  Mapping staging_;
  std::uint64_t staged_ = 0;
  std::unique_ptr<RemoteFrameWriter> writer_;
};

}  // namespace penstock::test
