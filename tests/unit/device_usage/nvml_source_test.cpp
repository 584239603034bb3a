// SPDX-License-Identifier: Apache-2.0
#include "dataplane/device/usage/nvml_source.hpp"

#include <memory>

#include <dlfcn.h>
#include <gtest/gtest.h>

#include "dataplane/device/usage/usage_watch.hpp"
#include "tests/fakes/nvml/fake_nvml.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/literal_tree.hpp"

namespace penstock::test {
namespace {

constexpr std::uint64_t mib = 1 << 20;
constexpr const char* first_uuid = "GPU-00112233-4455-6677-8899-aabbccddeeff";

class NvmlSourceTest : public testing::Test {
 protected:
  NvmlSourceTest() {
    void* const library = ::dlopen(FAKE_NVML, RTLD_NOW);
    const auto controls = reinterpret_cast<decltype(&fake_nvml)>(::dlsym(library, "fake_nvml"));
    fake_ = controls();
    FakeNvmlDevice device;
    device.uuid = first_uuid;
    device.bus = 0x41;
    device.total_bytes = 1000 * mib;
    device.used_bytes = 300 * mib;
    device.reserved_bytes = 40 * mib;
    fake_->devices = {device};
    fake_->init_answer = fake_->count_answer = nvml_success;
    source_ = std::make_unique<NvmlSource>(FAKE_NVML, tree_.path());
  }
  ~NvmlSourceTest() override {
    source_.reset();
    EXPECT_EQ(fake_->initialised, 0u);
  }

  FakeNvmlDevice& device() { return fake_->devices[0]; }
  DeviceUsage read_first() { return source_->read().value().at(0); }
  static nvml_process process(std::uint32_t pid, std::uint64_t bytes, std::uint32_t part = 0) {
    return {.pid = pid, .used_bytes = bytes, .gpu_instance = part, .compute_instance = 0};
  }

  const LiteralTree tree_{{"meminfo", "MemTotal:  2048 kB\nMemFree: 1 kB\nMemAvailable:    1024 kB\n"}};
  FakeNvml* fake_ = nullptr;
  std::unique_ptr<NvmlSource> source_;
};

TEST_F(NvmlSourceTest, ReadsIdentityAndMemory) {
  const DeviceUsage usage = read_first();
  EXPECT_EQ(usage.vendor, GpuVendor::cuda);
  EXPECT_EQ(usage.uuid[1], 0x11);
  EXPECT_EQ(usage.uuid[15], 0xff);
  EXPECT_EQ(usage.pci.bus, 0x41);
  EXPECT_EQ(usage.health, UsageHealth::readable);
  EXPECT_EQ(usage.total_bytes, 1000 * mib);
  EXPECT_EQ(usage.used_bytes, 300 * mib);
  EXPECT_EQ(usage.reserved_bytes, 40 * mib);
  EXPECT_FALSE(usage.shares_host_memory);
  EXPECT_TRUE(usage.knows_processes);
}

TEST_F(NvmlSourceTest, WithAnOldDriverCountsReservedMemoryAsUsed) {
  device().memory_v2_answer = nvml_not_supported;
  const DeviceUsage usage = read_first();
  EXPECT_EQ(usage.used_bytes, 340 * mib);
  EXPECT_EQ(usage.reserved_bytes, 0u);
}

TEST_F(NvmlSourceTest, ADeviceWithoutMemoryOfItsOwnUsesTheMachines) {
  device().memory_v2_answer = device().memory_answer = nvml_not_supported;
  const DeviceUsage usage = read_first();
  EXPECT_EQ(usage.health, UsageHealth::readable);
  EXPECT_TRUE(usage.shares_host_memory);
  EXPECT_EQ(usage.total_bytes, 2 * mib);
  EXPECT_EQ(usage.used_bytes, mib);
}

TEST_F(NvmlSourceTest, AddsUpPartsOfOneListAndTakesTheGreaterOfTwo) {
  device().processes[0] = {process(9, 10 * mib, 1), process(9, 20 * mib, 2), process(4, 5 * mib)};
  device().processes[1] = {process(9, 30 * mib), process(3, 1 * mib)};
  const DeviceUsage usage = read_first();
  EXPECT_EQ(usage.processes, (std::vector<ProcessUsage>{{3, 1 * mib}, {4, 5 * mib}, {9, 30 * mib}}));
}

TEST_F(NvmlSourceTest, MakesRoomForManyProcesses) {
  for (std::uint32_t pid = 1; pid <= 1000; ++pid) device().processes[0].push_back(process(pid, 1));
  EXPECT_EQ(read_first().processes.size(), 1000u);
}

TEST_F(NvmlSourceTest, ProcessesThatAreNotToldAreNotClaimedToBeKnown) {
  device().processes[0] = {process(9, 10 * mib), process(4, nvml_value_not_available)};
  EXPECT_FALSE(read_first().knows_processes);
  device().processes[0] = {process(9, 10'000 * mib)};
  EXPECT_FALSE(read_first().knows_processes);
  device().processes[0].clear();
  device().process_answers[0] = nvml_no_permission;
  const DeviceUsage usage = read_first();
  EXPECT_FALSE(usage.knows_processes);
  EXPECT_EQ(usage.used_bytes, 300 * mib);
}

TEST_F(NvmlSourceTest, ListsThePartsOfADividedGpu) {
  device().is_divided = true;
  device().parts.resize(2);
  device().parts[1].uuid = "MIG-ffeeddcc-4455-6677-8899-aabbccddee11";
  device().parts[1].total_bytes = 200 * mib;
  device().parts[1].processes[0] = {process(4, 5 * mib)};
  const auto devices = source_->read().value();
  ASSERT_EQ(devices.size(), 3u);
  EXPECT_FALSE(devices[0].is_part);
  EXPECT_TRUE(devices[2].is_part);
  EXPECT_EQ(devices[2].uuid[0], 0xff);
  EXPECT_EQ(devices[2].pci.bus, 0x41);
  EXPECT_EQ(devices[2].total_bytes, 200 * mib);
  EXPECT_EQ(devices[2].processes, (std::vector<ProcessUsage>{{4, 5 * mib}}));
}

TEST_F(NvmlSourceTest, OneLostGpuLeavesTheOthersReadable) {
  fake_->devices.push_back(device());
  fake_->devices[1].uuid = "GPU-99999999-4455-6677-8899-aabbccddeeff";
  ASSERT_EQ(source_->read().value().size(), 2u);
  device().memory_v2_answer = nvml_gpu_is_lost;
  EXPECT_EQ(read_first().health, UsageHealth::lost);
  EXPECT_EQ(read_first().native, nvml_gpu_is_lost);
  device().handle_answer = nvml_gpu_is_lost;
  for (int reading = 0; reading < 2; ++reading) {
    const auto devices = source_->read().value();
    ASSERT_EQ(devices.size(), 2u);
    EXPECT_EQ(devices[0].health, UsageHealth::readable);
    EXPECT_EQ(devices[1].health, UsageHealth::lost);
    EXPECT_EQ(devices[1].uuid[0], 0x00);
    EXPECT_EQ(devices[1].uuid[1], 0x11);
  }
  device().handle_answer = device().memory_v2_answer = nvml_success;
  const auto devices = source_->read().value();
  EXPECT_EQ(devices.size(), 2u);
  EXPECT_EQ(devices[0].health, UsageHealth::readable);
}

TEST_F(NvmlSourceTest, AGpuThatTellsNoNameOnceIsStillTheSameOne) {
  ASSERT_EQ(source_->read().value().size(), 1u);
  for (const nvml_return_t answer : {nvml_unknown, nvml_success}) {
    device().uuid_answer = answer;
    const auto devices = source_->read().value();
    ASSERT_EQ(devices.size(), 1u) << "none is lost";
    EXPECT_EQ(devices[0].health, UsageHealth::readable);
  }
}

TEST_F(NvmlSourceTest, StartsAnewAfterTheDriverWentAway) {
  ASSERT_TRUE(source_->read());
  fake_->count_answer = nvml_unknown;
  EXPECT_EQ(source_->read().error().code, Errc::device);
  EXPECT_EQ(fake_->initialised, 0u);
  fake_->count_answer = nvml_success;
  fake_->init_answer = nvml_driver_not_loaded;
  EXPECT_EQ(source_->read().error().code, Errc::not_found);
  fake_->init_answer = nvml_success;
  EXPECT_TRUE(source_->read());
}

TEST_F(NvmlSourceTest, IsAbsentWithoutTheLibrary) {
  NvmlSource source("libnvidia-ml.so.of-nobody");
  EXPECT_EQ(source.read().error().code, Errc::not_found);
}

TEST_F(NvmlSourceTest, ACallThatHangsInTheDriverOnlyAgesTheFigures) {
  using namespace std::chrono_literals;
  auto watch = std::make_unique<UsageWatch>(std::make_unique<NvmlSource>(FAKE_NVML, tree_.path()),
                                            UsageTimes{.interval = 1ms, .retry = 1ms, .stall = 5s});
  ASSERT_TRUE(eventually([&] { return watch->newest(monotonic_now()).readings > 0; }));
  const auto set_hanging = [this](bool on) {
    const std::lock_guard lock(fake_->mutex);
    fake_->hangs = on;
    fake_->changed.notify_all();
  };
  const auto count = [this](std::uint32_t FakeNvml::*number) {
    const std::lock_guard lock(fake_->mutex);
    return fake_->*number;
  };
  set_hanging(true);
  ASSERT_TRUE(eventually([&] { return count(&FakeNvml::hanging) == 1; }));
  const UsageSnapshot snapshot = watch->newest(monotonic_now() + 10s);
  EXPECT_EQ(snapshot.state, UsageState::stalled);
  EXPECT_EQ(snapshot.devices.at(0).used_bytes, 300 * mib);
  EXPECT_GE(snapshot.age, 10s);
  watch.reset();
  set_hanging(false);
  // The thread that was left behind shuts NVML down in its own time.
  EXPECT_TRUE(eventually([&] { return count(&FakeNvml::initialised) == 0; }));
}

}  // namespace
}  // namespace penstock::test
