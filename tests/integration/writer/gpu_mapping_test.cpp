// SPDX-License-Identifier: Apache-2.0
// A GPU whose writer maps frames to read them, and a driver that refuses: each call of it, once. The writer is a process
// of its own, and so are its faults.
#include <csignal>
#include <cstdlib>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "dataplane/base/units.hpp"
#include "dataplane/device/gpu/gpu_device.hpp"
#include "dataplane/kernels/convert.hpp"
#include "tests/integration/writer/writer_rig.hpp"
#include "tests/support/drive_device.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/fake_gpu.hpp"

namespace penstock::test {
namespace {

constexpr std::uint64_t frame_bytes = 2 * mib;
// Behind those of the self-test: the first maps the test's frame to be filled, the second its source.
constexpr int occurrences = 2;

class GpuMapping : public testing::Test {
 protected:
  static bool is_hip() {
    const char* name = std::getenv("PENSTOCK_TEST_GPU");
    return name != nullptr && std::string_view(name).starts_with("hip");
  }
  static std::string call(const char* cuda, const char* hip) { return is_hip() ? hip : cuda; }

  void SetUp() override {
    const std::shared_ptr<GpuDriver> gpu = fake_.gpu();
    auto owner =
        GpuFrameOwner::open(gpu, {.frame_bytes = frame_bytes, .capacity_bytes = 8 * frame_bytes}, headroom_);
    auto program = WriterProgram::open(
        program_path("penstock-writer"),
        {std::string(gpu_vendor_name(gpu->description().identity.vendor)), gpu->description().identity.id});
    ASSERT_TRUE(owner && program);
    RemoteFillerOptions options = WriterRig::quick();
    options.stall_ticks = 2000;
    options.restarts.window_ticks = 1;  // Each fault has a writer of its own, which is not held back.
    auto filler = RemoteFiller::open(*std::move(program), options);
    ASSERT_TRUE(filler);
    filler_ = filler->get();
    auto device = GpuDevice::open(std::move(*owner), *std::move(filler));
    ASSERT_TRUE(device);
    device_ = std::move(*device);
    ASSERT_TRUE(wait_until_ready());
  }
  FrameWriter& writer() { return device_->writer(); }
  bool wait_until_ready() {
    while (filler_->stats().state != WriterState::ready) {
      const Result<FenceId> reached = writer().reached();
      if (!reached && reached.error().code == Errc::closed) return false;
      if (filler_->stats().state != WriterState::ready && !wait_readable(writer().event_fd())) return false;
    }
    return writer().reached().has_value();
  }
  // The next writer's environment has the faults.
  bool replace_writer(const std::string& faults) {
    ::setenv("PENSTOCK_FAKE_FAULTS", faults.c_str(), 1);
    const std::uint64_t before = filler_->stats().starts;
    ::kill(filler_->stats().pid, SIGKILL);
    while (filler_->stats().starts == before) {
      if (!wait_readable(writer().event_fd())) return false;
      static_cast<void>(writer().reached());
    }
    const bool ready = wait_until_ready();
    ::unsetenv("PENSTOCK_FAKE_FAULTS");
    return ready;
  }
  // Nothing when the driver had no memory for it.
  std::optional<FrameId> make_attached() {
    const CreateDone done = create_and_wait(device_->owner());
    if (done.result != CreateResult::created || !writer().attach(done.frame)) return std::nullopt;
    return done.frame;
  }
  enum class Copied { yes, failed, lost };
  Copied copy_frame(FrameId to, FrameId from) {
    const Result<FenceId> fence = writer().copy_frame(to, from);
    if (!fence || !wait_reached(writer(), *fence)) return Copied::lost;
    return writer().take_copy_failure(*fence) ? Copied::failed : Copied::yes;
  }
  std::optional<std::uint64_t> sum(FrameId frame) {
    const Result<FenceId> fence = writer().sum(frame);
    if (!fence || !wait_reached(writer(), *fence)) return std::nullopt;
    const std::optional<Result<std::uint64_t>> sum = writer().take_sum(*fence);
    return sum && *sum ? std::optional(**sum) : std::nullopt;
  }
  void destroy(FrameId frame) { device_->owner().destroy(frame); }
  // Until the writer has unmapped what was destroyed.
  bool settles_at(std::uint64_t frames) {
    return eventually([&] {
      static_cast<void>(writer().reached());
      return fake_.live().handles == frames && device_->stats().condemned == 0;
    });
  }

  const FakeGpu& fake_ = is_hip() ? FakeGpu::hip("7.1") : FakeGpu::cuda();
  const std::shared_ptr<FixedHeadroom> headroom_ = std::make_shared<FixedHeadroom>();
  std::unique_ptr<GpuDevice> device_;
  RemoteFiller* filler_ = nullptr;  // The device's.
};

TEST_F(GpuMapping, ARefusalToMapForReadingCostsThatCopyAlone) {
  const std::optional<FrameId> clean = make_attached();
  ASSERT_TRUE(clean);
  ASSERT_TRUE(device_->owner().share(*clean, FrameAccess::shared_read_only));
  const std::uint64_t zeroes = checksum(std::vector<std::byte>(frame_bytes));
  const std::size_t descriptors = open_descriptors();
  const std::string reserve = call("cuMemAddressReserve", "hipMemAddressReserve"),
                    import = call("cuMemImportFromShareableHandle", "hipMemImportFromShareableHandle"),
                    map = call("cuMemMap", "hipMemMap"), access = call("cuMemSetAccess", "hipMemSetAccess");
  int failed = 0;
  for (const std::string& refused : {reserve, import, map, access}) {
    for (const int code : {2, 1}) {
      const int tested = refused == access ? 2 : 1;  // By the self-test.
      for (int at = tested + 1; at <= tested + occurrences; ++at) {
        const std::string plan = fmt::format("{}:{}@{}", refused, code, at);
        ASSERT_TRUE(replace_writer(plan)) << plan;
        const pid_t pid = filler_->stats().pid;
        std::optional<FrameId> own = make_attached();
        if (!own) own = make_attached();
        ASSERT_TRUE(own) << plan;
        const Copied copied = copy_frame(*own, *clean);
        ASSERT_NE(copied, Copied::lost) << plan;
        failed += copied == Copied::failed ? 1 : 0;
        EXPECT_EQ(copy_frame(*own, *clean), Copied::yes) << plan;
        EXPECT_EQ(sum(*clean), zeroes) << plan;
        destroy(*own);
        EXPECT_EQ(filler_->stats().pid, pid) << plan;
        EXPECT_TRUE(settles_at(1)) << plan;
        EXPECT_EQ(open_descriptors(), descriptors) << plan;
      }
    }
  }
  EXPECT_GE(failed, 8);  // Each call with each code has hit the map for reading once.
  destroy(*clean);
  EXPECT_TRUE(settles_at(0));
  EXPECT_EQ(fake_.used_bytes(), 0u);
}

}  // namespace
}  // namespace penstock::test
