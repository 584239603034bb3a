// SPDX-License-Identifier: Apache-2.0
// Each error that a driver documents for a call that we make, once at each of its first occurrences in a short life of a
// device: the outcome is one of those that are foreseen, nothing hangs, and nothing is left.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "dataplane/base/units.hpp"
#include "dataplane/device/gpu/gpu_device.hpp"
#include "dataplane/device/gpu/gpu_frame_writer.hpp"
#include "dataplane/kernels/convert.hpp"
#include "dataplane/kernels/device_code.hpp"
#include "tests/fakes/documented_errors.hpp"
#include "tests/support/drive_device.hpp"
#include "tests/support/fake_gpu.hpp"
#include "tests/support/fixed_headroom.hpp"

namespace penstock {
namespace {

constexpr std::uint64_t frame_bytes = 2 * mib;
constexpr std::uint64_t occurrences_max = 3;

// What became of a short life. Each is fine in its place.
enum class Outcome : std::uint8_t {
  done,         // As if nothing had happened, or after one more try.
  not_opened,   // No writer: its process ends.
  exhausted,    // A creation was refused for lack of memory.
  refused,      // A creation was answered `lost`; the next one works.
  writer_lost,  // Its process ends, and another is started.
  quarantined,  // The GPU is not used any more.
  wrong_bytes,  // Never.
};

std::string_view name_of(Outcome outcome) {
  constexpr std::array names{"done",        "not_opened",  "exhausted",  "refused",
                             "writer_lost", "quarantined", "wrong_bytes"};
  return names[static_cast<std::size_t>(outcome)];
}

const std::vector<std::byte>& content() {
  static const std::vector<std::byte> bytes = [] {
    std::vector<std::byte> made(frame_bytes);
    for (std::size_t at = 0; at < made.size(); ++at) made[at] = static_cast<std::byte>(at * 131 >> 4);
    return made;
  }();
  return bytes;
}

// Makes two frames, fills one in three ways, copies it to the other, sums that up and reads it back.
class ShortLife {
 public:
  explicit ShortLife(const FakeGpu& fake) : gpu_(fake.gpu()) {}

  // `armed` is called when the GPU has been found.
  template <class Armed>
  Outcome run(const Armed& armed) {
    armed();
    auto opened = GpuFrameWriter::open(gpu_, {.staging_chunk_bytes = 64 * kib, .staging_chunks = 4});
    if (!opened) return Outcome::not_opened;
    writer_ = opened->get();
    auto owner =
        GpuFrameOwner::open(gpu_, {.frame_bytes = frame_bytes, .capacity_bytes = 4 * frame_bytes}, headroom_);
    if (!owner) return Outcome::not_opened;
    auto device = GpuDevice::open(std::move(*owner), std::move(*opened));
    if (!device) return Outcome::not_opened;
    device_ = std::move(*device);
    const Outcome outcome = live();
    device_.reset();
    return outcome;
  }

 private:
  Outcome live() {
    if (!device_->writer().use_staging(content_, -1)) return Outcome::writer_lost;
    static_cast<void>(writer_->memory_figures());
    const std::optional<FrameId> first = make(), second = make();
    if (!first || !second) return worst_;
    if (!fill(*first)) return Outcome::writer_lost;
    // Still under way when the frame is copied: streams wait for each other.
    for (int i = 0; i < 8; ++i) {
      if (!device_->writer().copy(*first, 0, std::span<const std::byte>(content_).first(4096), {}))
        return Outcome::writer_lost;
    }
    const Result<FenceId> copied = device_->writer().copy_frame(*second, *first);
    if (!copied || !wait_reached(device_->writer(), *copied)) return Outcome::writer_lost;
    if (!sum(*second)) return wrong_ ? Outcome::wrong_bytes : Outcome::writer_lost;
    std::vector<std::byte> seen(frame_bytes);
    const Result<FenceId> read = writer_->read_out(*second, seen);
    if (!read || !wait_reached(device_->writer(), *read)) return Outcome::writer_lost;
    if (seen != expected()) return Outcome::wrong_bytes;
    device_->owner().destroy(*second);
    // Unmapping is the writer's; whether it worked is seen by the next answer.
    const std::optional<FrameId> third = make();
    if (!third) return worst_;
    return device_->writer().reached() ? worst_ : Outcome::writer_lost;
  }

  // As the core does: once more, then an answer for whoever waits.
  std::optional<FrameId> make() {
    for (int tries = 0; tries < 2; ++tries) {
      const CreateDone done = create_and_wait(device_->owner());
      if (done.result == CreateResult::created) {
        if (device_->writer().attach(done.frame)) return done.frame;
        worst_ = Outcome::writer_lost;
        return std::nullopt;
      }
      const Outcome outcome = device_->stats().quarantined             ? Outcome::quarantined
                              : !writer_->loss().ok()                  ? Outcome::writer_lost
                              : done.result == CreateResult::exhausted ? Outcome::exhausted
                                                                       : Outcome::refused;
      worst_ = std::max(worst_, outcome);
    }
    return std::nullopt;
  }

  bool fill(FrameId frame) {
    FrameWriter& writer = device_->writer();
    const std::span<const std::byte> all(content_);
    const Result<FenceId> whole = writer.copy(frame, 0, all, {});
    if (!whole || !wait_reached(writer, *whole)) return false;
    const Result<FenceId> converted = writer.copy(frame, 4096, all.first(100'000), conversion);
    return converted && wait_reached(writer, *converted);
  }

  // A sum that fails is nothing; a wrong one is.
  bool sum(FrameId frame) {
    const Result<FenceId> fence = device_->writer().sum(frame);
    if (!fence) return fence.error().code == Errc::unsupported;
    if (!wait_reached(device_->writer(), *fence)) return false;
    const std::optional<Result<std::uint64_t>> sum = device_->writer().take_sum(*fence);
    if (!sum) return false;
    if (!*sum) return sum->error().code != Errc::device;
    wrong_ = **sum != checksum(expected());
    return !wrong_;
  }

  std::vector<std::byte> expected() const {
    std::vector<std::byte> bytes = content_;
    convert(conversion.stored, std::span(content_).first(100'000), conversion.wanted,
            std::span(bytes).subspan(4096, 50'000), conversion.scale);
    return bytes;
  }

  static constexpr CopyConversion conversion{Dtype::f32, Dtype::bf16, 1.0f};

  const std::shared_ptr<GpuDriver> gpu_;
  std::vector<std::byte> content_ = content();
  const std::shared_ptr<FixedHeadroom> headroom_ = std::make_shared<FixedHeadroom>();
  std::unique_ptr<GpuDevice> device_;
  GpuFrameWriter* writer_ = nullptr;  // The device's.
  Outcome worst_ = Outcome::done;
  bool wrong_ = false;
};

struct Faulty {
  const char* cuda;
  const char* hip;
  std::vector<int> codes;
  std::set<Outcome> outcomes;
};

constexpr auto done = Outcome::done, not_opened = Outcome::not_opened, exhausted = Outcome::exhausted,
               refused = Outcome::refused, writer_lost = Outcome::writer_lost,
               quarantined = Outcome::quarantined;

// Codes as the vendors' headers document them for each call, and those of a dead context where one is needed.
const std::vector<int> memory_codes{1, 3, 4, 800, 801}, context_codes{1, 2, 3, 4, 201, 700, 709, 719, 999};

const std::set<int> hip_codes(fake::hip_answers.begin(), fake::hip_answers.end());

std::vector<int> with(std::vector<int> codes, std::initializer_list<int> more) {
  codes.insert(codes.end(), more);
  return codes;
}

std::vector<Faulty> faults() {
  return {
      {"cuMemCreate",
       "hipMemCreate",
       with(memory_codes, {2, 101, 999}),
       {done, exhausted, refused, quarantined}},
      {"cuMemExportToShareableHandle",
       "hipMemExportToShareableHandle",
       with(memory_codes, {2, 600}),
       {done, exhausted, refused, quarantined}},
      {"cuMemRelease", "hipMemRelease", with(memory_codes, {999}), {done}},
      {"cuMemAddressReserve",
       "hipMemAddressReserve",
       with(memory_codes, {2}),
       {exhausted, refused, writer_lost}},
      {"cuMemImportFromShareableHandle",
       "hipMemImportFromShareableHandle",
       with(memory_codes, {2}),
       {exhausted, refused, writer_lost}},
      {"cuMemMap", "hipMemMap", with(memory_codes, {2, 101, 401}), {exhausted, refused, writer_lost}},
      {"cuMemSetAccess",
       "hipMemSetAccess",
       with(memory_codes, {2, 101, 999}),
       {exhausted, refused, writer_lost}},
      {"cuMemUnmap", "hipMemUnmap", with(memory_codes, {999}), {done}},
      {"cuMemAddressFree", "hipMemAddressFree", with(memory_codes, {999}), {done}},
      {"cuDevicePrimaryCtxRetain", nullptr, with(context_codes, {46, 101, 805, 810}), {not_opened}},
      {"cuDevicePrimaryCtxRelease", nullptr, with(context_codes, {101}), {done}},
      {"cuCtxSetCurrent", nullptr, context_codes, {done, not_opened, writer_lost}},
      {nullptr,
       "hipSetDevice",
       with(context_codes, {100, 101}),
       {not_opened, done, exhausted, refused, writer_lost, quarantined}},
      {"cuStreamCreate", "hipStreamCreateWithFlags", context_codes, {not_opened, done, writer_lost}},
      {"cuMemHostAlloc", "hipHostMalloc", context_codes, {not_opened, done, writer_lost}},
      {"cuMemHostRegister", "hipHostRegister", with({1, 2, 712, 800, 801}, {}), {done}},
      {"cuMemHostRegister", "hipHostRegister", with({3, 4, 201, 700}, {}), {writer_lost}},
      {"cuMemGetInfo", "hipMemGetInfo", context_codes, {done}},
      {"cuEventCreate", "hipEventCreateWithFlags", context_codes, {writer_lost, done}},
      {"cuEventRecord", "hipEventRecord", with(context_codes, {400}), {writer_lost, done}},
      {"cuEventSynchronize", "hipEventSynchronize", with(context_codes, {400}), {writer_lost}},
      {"cuMemsetD32Async", "hipMemsetD32Async", context_codes, {writer_lost}},
      {"cuMemcpyHtoDAsync", "hipMemcpyHtoDAsync", with(context_codes, {400}), {writer_lost}},
      {"cuMemcpyDtoDAsync", "hipMemcpyDtoDAsync", with(context_codes, {400}), {writer_lost}},
      {"cuMemcpyDtoHAsync", "hipMemcpyDtoHAsync", with(context_codes, {400}), {writer_lost}},
      {"cuStreamSynchronize", "hipStreamSynchronize", with(context_codes, {400}), {writer_lost, done}},
      {"cuMemHostGetDevicePointer",
       "hipHostGetDevicePointer",
       context_codes,
       {done, not_opened, writer_lost}},
      {"cuModuleLoadData", "hipModuleLoadData", {1, 2, 209, 218, 221, 222, 302, 303, 999}, {done}},
      {"cuModuleLoadData", "hipModuleLoadData", {3, 4, 201, 700}, {not_opened}},
      {"cuModuleGetFunction", "hipModuleGetFunction", {1, 500, 999}, {done}},
      {"cuModuleGetFunction", "hipModuleGetFunction", {3, 4, 201, 700}, {not_opened}},
      {"cuLaunchKernel",
       "hipModuleLaunchKernel",
       with(context_codes, {200, 303, 400, 500, 701, 702, 703, 717}),
       {writer_lost, done}},
      {"cuModuleUnload", "hipModuleUnload", with(context_codes, {800}), {done}},
      {nullptr, "hipGetDevicePropertiesR0600", {1, 3, 4, 100, 101, 201}, {done, not_opened}},
      {"cuStreamWaitEvent", "hipStreamWaitEvent", with(context_codes, {400}), {writer_lost, done}},
      {"cuMemFreeHost", "hipHostFree", context_codes, {done}},
      {"cuMemHostUnregister", "hipHostUnregister", with(context_codes, {713}), {done}},
      {"cuEventDestroy", "hipEventDestroy", with(context_codes, {400}), {done}},
      {"cuStreamDestroy", "hipStreamDestroy", with(context_codes, {400}), {done}},
  };
}

class GpuFaults : public testing::Test {
 protected:
  // ctest runs this once a vendor: PENSTOCK_TEST_GPU.
  static bool is_hip() {
    const char* name = std::getenv("PENSTOCK_TEST_GPU");
    return name != nullptr && std::string_view(name).starts_with("hip");
  }
  const FakeGpu& fake_ = is_hip() ? FakeGpu::hip("7.1") : FakeGpu::cuda();

  Outcome run(const std::string& plan) {
    ShortLife life(fake_);
    const Outcome outcome = life.run([&] { fake_.set_faults(plan); });
    return outcome;
  }
  // The build may have no compiler for it.
  static bool has_device_code() {
    return is_hip() ? !hip_device_code("gfx90a").empty() : !cuda_device_code().empty();
  }
  static bool is_of_modules(const std::string& call) {
    return call.find("Module") != std::string::npos || call.find("LaunchKernel") != std::string::npos;
  }
  static std::ptrdiff_t open_descriptors() {
    const std::filesystem::directory_iterator all("/proc/self/fd");
    return std::distance(begin(all), end(all));
  }
  // Handles, mappings and addresses of this process, and the device's used bytes.
  std::string left() const {
    const FakeLive live = fake_.live();
    return fmt::format("{} handles, {} mappings, {} reserved, {} used", live.handles, live.mappings,
                       live.reserved_bytes, fake_.used_bytes());
  }
  // Page-locked memory; of a dead context it goes with the process alone.
  std::uint64_t locked() const { return fake_.live().registered_host_bytes; }
};

TEST_F(GpuFaults, AShortLifeWithoutOneIsDoneAndUsesEachCall) {
  EXPECT_EQ(run(""), Outcome::done);
  for (const Faulty& fault : faults()) {
    const char* const call = is_hip() ? fault.hip : fault.cuda;
    if (call == nullptr || (!has_device_code() && is_of_modules(call))) continue;
    if (std::string_view(call).ends_with("StreamWaitEvent"))
      continue;  // Where the work has not ended by then.
    EXPECT_GT(fake_.calls(call), 0u) << call;
  }
  EXPECT_EQ(left(), "0 handles, 0 mappings, 0 reserved, 0 used");
  EXPECT_EQ(locked(), 0u);
}

TEST_F(GpuFaults, TheListHasWhatIsDocumented) {
  for (const fake::DocumentedCall& call : fake::documented_calls) {
    const char* const name = is_hip() ? call.hip : call.cuda;
    if (name == nullptr || (call.parts & fake::by_device) == 0) continue;
    std::set<int> listed;
    for (const Faulty& fault : faults()) {
      const char* const here = is_hip() ? fault.hip : fault.cuda;
      if (here != nullptr && std::string_view(here) == name)
        listed.insert(fault.codes.begin(), fault.codes.end());
    }
    for (const int code : call.cuda_errors) EXPECT_TRUE(listed.contains(code)) << name << " " << code;
  }
}

TEST_F(GpuFaults, EachErrorHasAForeseenOutcomeAndLeavesNothing) {
  ASSERT_EQ(run(""), Outcome::done);  // Whatever is made once a process is there now.
  std::map<std::string, std::uint64_t> counts;
  for (const Faulty& fault : faults()) {
    const char* const call = is_hip() ? fault.hip : fault.cuda;
    if (call != nullptr) counts[call] = std::min(fake_.calls(call), occurrences_max);
  }
  const std::ptrdiff_t descriptors = open_descriptors();
  const std::string clean = left();
  for (const Faulty& fault : faults()) {
    const char* const call = is_hip() ? fault.hip : fault.cuda;
    if (call == nullptr) continue;
    for (std::size_t index = 0; index < fault.codes.size(); ++index) {
      const int code = fault.codes[index];
      if (is_hip() && !hip_codes.contains(code)) continue;
      for (std::uint64_t at = 1; at <= counts[call]; ++at) {
        // All at the first call, and one at each of the later ones.
        if (at > 1 && index != at % fault.codes.size()) continue;
        const std::string plan = fmt::format("{}:{}@{}", call, code, at);
        const Outcome outcome = run(plan);
        EXPECT_TRUE(fault.outcomes.contains(outcome)) << plan << ": " << name_of(outcome);
        ASSERT_EQ(left(), clean) << plan << ": " << name_of(outcome);
        ASSERT_EQ(locked(), 0u) << plan << ": " << name_of(outcome);
        ASSERT_EQ(open_descriptors(), descriptors) << plan << ": " << name_of(outcome);
      }
    }
  }
  EXPECT_EQ(run(""), Outcome::done);
}

TEST_F(GpuFaults, ADeadContextLosesTheWriterAndNothingElse) {
  if (is_hip()) GTEST_SKIP() << "requires a driver whose dead context ends before its process does: CUDA";
  ASSERT_EQ(run(""), Outcome::done);
  const std::string clean = left();
  for (const char* plan : {"copy:700@2", "copy:700@3", "cuMemcpyHtoDAsync:719!@1", "cuEventRecord:700!@2"}) {
    EXPECT_EQ(run(plan), Outcome::writer_lost) << plan;
    EXPECT_EQ(left(), clean) << plan;
    EXPECT_EQ(run(""), Outcome::done) << plan;
  }
}

}  // namespace
}  // namespace penstock
