// SPDX-License-Identifier: Apache-2.0
#include "dataplane/device/gpu/gpu_device.hpp"

#include <utility>

#include "dataplane/base/check.hpp"
#include "dataplane/device/gpu/gpu_device_state.hpp"

namespace penstock {
namespace {

class Owner final : public FrameOwner {
 public:
  explicit Owner(GpuDeviceState& state) : state_(state) {}

  DeviceLimits limits() const override { return state_.owner().limits(); }
  void create(std::uint64_t tag) override { state_.create(tag); }
  std::size_t reap(std::span<CreateDone> done) override { return state_.reap(done); }
  void destroy(FrameId frame) override { state_.destroy(frame); }
  Result<ExportedFrame> share(FrameId frame, FrameAccess access) override {
    return state_.owner().share(frame, access);
  }
  std::uint64_t contents_losses() const override { return state_.owner().stats().contents_losses_total; }
  int event_fd() const override { return state_.owner_fd(); }

 private:
  GpuDeviceState& state_;
};

class Writer final : public FrameWriter {
 public:
  explicit Writer(GpuDeviceState& state) : state_(state) {}

  Result<> use_staging(std::span<std::byte> memory, int fd) override {
    return state_.filler().use_staging(memory, fd);
  }
  Result<> add_source(SourceId source, std::span<std::byte> memory, int fd) override {
    TRY(state_.filler().add_source(source, memory, fd));
    return {};
  }
  FenceId drop_source(SourceId source) override {
    return state_.filler().drop_source(source).value_or(FenceId{});
  }
  Result<> attach(FrameId frame) override {
    TRY(check_mapped_to_fill(frame));
    state_.at(frame).attached = true;
    return {};
  }
  void detach(FrameId frame) override {
    CHECK(state_.at(frame).attached);
    state_.at(frame).attached = false;
  }
  Result<FenceId> copy(FrameId frame, std::uint64_t offset, std::span<const std::byte> source,
                       const CopyConversion& conversion) override {
    TRY(check_fillable(frame));
    return state_.filler().copy(frame, offset, source, conversion);
  }
  Result<FenceId> copy_frame(FrameId to, FrameId from) override {
    CHECK(to != from && state_.at(from).attached);
    TRY(check_fillable(to));
    TRY(state_.map_to_read(from));
    return state_.filler().copy_frame(to, from);
  }
  std::optional<Error> take_copy_failure(FenceId fence) override {
    return state_.filler().take_copy_failure(fence);
  }
  Result<FenceId> sum(FrameId frame) override {
    CHECK(state_.at(frame).attached);
    TRY(state_.map_to_read(frame));
    return state_.filler().checksum(frame);
  }
  std::optional<Result<std::uint64_t>> take_sum(FenceId fence) override {
    return state_.filler().take_checksum(fence);
  }
  void flush() override { state_.filler().flush(); }
  std::span<std::byte> address(FrameId) override { return {}; }
  Result<FenceId> reached() override { return state_.reached(); }
  int event_fd() const override { return state_.writer_fd(); }

 private:
  Result<> check_fillable(FrameId frame) {
    const GpuDeviceState::Frame& entry = state_.at(frame);
    CHECK(entry.attached && state_.owner().published(frame) != FrameAccess::shared_read_only);
    return check_mapped_to_fill(frame);
  }
  // By the filler that zeroed it: no other one fills it.
  Result<> check_mapped_to_fill(FrameId frame) {
    const GpuDeviceState::Frame& entry = state_.at(frame);
    if (entry.fillable && state_.is_mapped(entry)) return {};
    return Error{Errc::device, 0, "the frame's writer is lost"};
  }

  GpuDeviceState& state_;
};

}  // namespace

Result<std::unique_ptr<GpuDevice>> GpuDevice::open(std::unique_ptr<GpuFrameOwner> owner,
                                                   std::unique_ptr<FrameFiller> filler) {
  JointWake owner_wake = TRY(JointWake::make({owner->event_fd(), filler->event_fd()}));
  JointWake writer_wake = TRY(JointWake::make({filler->event_fd()}));
  return std::unique_ptr<GpuDevice>(new GpuDevice(std::make_unique<GpuDeviceState>(
      std::move(owner), std::move(filler), std::move(owner_wake), std::move(writer_wake))));
}

GpuDevice::GpuDevice(std::unique_ptr<GpuDeviceState> state)
    : state_(std::move(state)),
      owner_(std::make_unique<Owner>(*state_)),
      writer_(std::make_unique<Writer>(*state_)) {}

GpuDevice::~GpuDevice() = default;

FrameFiller& GpuDevice::filler() { return state_->filler(); }
void GpuDevice::quarantine() { state_->owner().quarantine(); }
GpuFrameStats GpuDevice::stats() const { return state_->owner().stats(); }
std::function<std::string()> GpuDevice::call_watch() const { return state_->owner().call_watch(); }

}  // namespace penstock
