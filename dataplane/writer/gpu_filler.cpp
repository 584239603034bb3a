// SPDX-License-Identifier: Apache-2.0
#include "dataplane/writer/gpu_filler.hpp"

#include <utility>

#include "dataplane/device/gpu/gpu_frame_owner.hpp"
#include "dataplane/device/gpu/self_test.hpp"
#include "dataplane/device/gpu/vendor.hpp"
#include "dataplane/kernels/convert.hpp"

namespace penstock {

Outcome<std::shared_ptr<GpuDriver>> find_gpu(GpuVendor vendor, const std::string& id) {
  OpenedVendor opened = open_vendor(vendor, DriverLoading::load);
  for (std::shared_ptr<GpuDriver>& gpu : opened.gpus) {
    if (gpu->description().identity.id == id) return std::move(gpu);
  }
  std::string why(vendor_state_name(opened.report.state));
  if (!opened.report.detail.empty()) why += ": " + opened.report.detail;
  return fail(FailureKind::device_unhealthy, "no GPU " + id + " (driver " + why + ")",
              std::move(opened.report.remedy));
}

namespace {

// As the drivers number it.
constexpr DriverCode out_of_memory{.native = 2, .call = "checksum of a frame that was read out"};

}  // namespace

Outcome<std::unique_ptr<GpuFiller>> GpuFiller::open(GpuVendor vendor, const std::string& id) {
  auto driver = find_gpu(vendor, id);
  if (!driver) return tl::unexpected(std::move(driver.error()));
  const SelfTestReport test = run_self_test(**driver, default_gpu_frame_bytes((*driver)->description()));
  // A full GPU says nothing against it: the frames of the writer before this one may fill it.
  if (!test.passed && !test.lacked_memory) {
    return fail(FailureKind::device_unhealthy, id + " failed its self-test: " + test.problem);
  }
  Result<std::unique_ptr<GpuFrameWriter>> writer = GpuFrameWriter::open(*std::move(driver), {});
  if (!writer) {
    return fail(FailureKind::device_unhealthy,
                id + ": " + writer.error().operation + " answered " + std::to_string(writer.error().native));
  }
  return std::unique_ptr<GpuFiller>(new GpuFiller(*std::move(writer)));
}

Result<FenceId> GpuFiller::map(FrameId frame, int fd, std::uint64_t bytes, Use use) {
  const FenceId fence = TRY(writer_->map(frame, fd, bytes, use));
  frame_bytes_[frame] = bytes;
  return fence;
}

Result<FenceId> GpuFiller::unmap(FrameId frame) {
  const FenceId fence = TRY(writer_->unmap(frame));
  frame_bytes_.erase(frame);
  return fence;
}

Result<FenceId> GpuFiller::checksum(FrameId frame) {
  if (writer_->has_kernels()) return writer_->checksum(frame);
  if (open_checksum_) return Error{Errc::busy, 0, "checksum"};
  const std::uint64_t bytes = frame_bytes_.at(frame);
  if (read_out_.size() < bytes) {
    Result<Mapping> made = Mapping::anonymous(bytes, PageKind::transparent);
    if (!made) return writer_->fail_sum(out_of_memory);
    read_out_ = *std::move(made);
  }
  const Result<FenceId> fence = writer_->read_out(frame, read_out_.bytes().first(bytes));
  if (!fence && fence.error().code == Errc::exhausted) return writer_->fail_sum(out_of_memory);
  if (fence) open_checksum_ = {.fence = *fence, .bytes = bytes};
  return fence;
}

std::optional<Result<std::uint64_t>> GpuFiller::take_checksum(FenceId fence) {
  if (!open_checksum_ || open_checksum_->fence != fence) return writer_->take_checksum(fence);
  const std::uint64_t bytes = open_checksum_->bytes;
  open_checksum_.reset();
  return penstock::checksum(read_out_.bytes().first(bytes));
}

std::uint64_t GpuFiller::free_bytes() {
  const Result<DeviceMemoryFigures> figures = writer_->memory_figures();
  return figures ? figures->free_bytes : 0;
}

}  // namespace penstock
