// SPDX-License-Identifier: Apache-2.0
#include "dataplane/device/usage/usage_figures.hpp"

#include <array>

#include <gtest/gtest.h>

namespace penstock::test {
namespace {

constexpr std::uint64_t mib = 1 << 20;
constexpr std::uint32_t service = 100, writer = 101;

DeviceUsage usage_of(std::uint64_t used, std::vector<ProcessUsage> processes) {
  DeviceUsage usage;
  usage.total_bytes = 1000 * mib;
  usage.used_bytes = used;
  usage.reserved_bytes = 20 * mib;
  usage.knows_processes = true;
  usage.processes = std::move(processes);
  return usage;
}

TEST(UsageFigures, ForeignIsWhatIsUsedBesideOurFramesAndGrants) {
  const std::array<GrantedWork, 3> granted = {{{7, 50 * mib}, {8, 50 * mib}, {9, 50 * mib}}};
  const DeviceUsage usage = usage_of(600 * mib, {{5, 200 * mib}, {7, 30 * mib}, {8, 80 * mib}});
  const OwnUsage own{
      .frame_bytes = 250 * mib, .service_pid = service, .writer_pid = writer, .granted = granted};
  const UsageFigures figures = figures_of(usage, own);
  // Of the grants 30 and 50 MiB are in use; what client 8 takes beyond its own is as foreign as anybody's.
  EXPECT_EQ(figures.foreign_bytes, (600 - 250 - 30 - 50) * mib);
  EXPECT_EQ(figures.free_bytes, (1000 - 600 - 20) * mib);
}

TEST(UsageFigures, GhostIsWhatNobodyOwnsUpTo) {
  const DeviceUsage usage = usage_of(600 * mib, {{5, 200 * mib}});
  EXPECT_EQ(figures_of(usage, {.frame_bytes = 250 * mib}).ghost_bytes, 150 * mib);
  EXPECT_EQ(figures_of(usage, {.frame_bytes = 250 * mib}, 100 * mib).ghost_bytes, 50 * mib);
  EXPECT_EQ(figures_of(usage, {.frame_bytes = 900 * mib}).ghost_bytes, 0u);
}

// A driver may count frames for the service's pid, or for nobody's.
TEST(UsageFigures, OurFramesCountOnceWhoeverShowsThem) {
  const OwnUsage own{.frame_bytes = 250 * mib, .service_pid = service, .writer_pid = writer};
  const auto unseen = usage_of(600 * mib, {{5, 350 * mib}});
  EXPECT_EQ(figures_of(unseen, own).ghost_bytes, 0u);
  EXPECT_EQ(figures_of(unseen, own).foreign_bytes, 350 * mib);
  const auto seen = usage_of(600 * mib, {{5, 300 * mib}, {100, 260 * mib}, {101, 40 * mib}});
  EXPECT_EQ(figures_of(seen, own).ghost_bytes, 0u);
  EXPECT_EQ(figures_of(seen, own).foreign_bytes, 300 * mib);
}

TEST(UsageFigures, TheWritersContextIsOurOwn) {
  const OwnUsage own{.frame_bytes = 250 * mib, .service_pid = service, .writer_pid = writer};
  const auto idle = usage_of(550 * mib, {{101, 300 * mib}});
  EXPECT_EQ(figures_of(idle, own).foreign_bytes, 0u);
  EXPECT_EQ(figures_of(idle, own).ghost_bytes, 0u);
  // Used bytes may lag behind what was just made.
  EXPECT_EQ(figures_of(usage_of(100 * mib, {{101, 300 * mib}}), own).foreign_bytes, 0u);
}

TEST(UsageFigures, WithoutKnownProcessesTooMuchIsForeignAndNoGhostIsClaimed) {
  const std::array<GrantedWork, 1> granted = {{{7, 50 * mib}}};
  DeviceUsage usage = usage_of(600 * mib, {{7, 50 * mib}});
  usage.knows_processes = false;
  const UsageFigures figures = figures_of(usage, {.frame_bytes = 250 * mib, .granted = granted});
  EXPECT_EQ(figures.foreign_bytes, 350 * mib);
  EXPECT_EQ(figures.ghost_bytes, std::nullopt);
}

TEST(UsageFigures, NothingBecomesNegative) {
  const UsageFigures figures =
      figures_of(usage_of(990 * mib, {{5, 2000 * mib}}), {.frame_bytes = 2000 * mib});
  EXPECT_EQ(figures.foreign_bytes, 0u);
  EXPECT_EQ(figures.ghost_bytes, 0u);
  EXPECT_EQ(figures.free_bytes, 0u);
}

TEST(UsageFigures, ADeviceIsFoundByUuidThenByPciAddress) {
  std::vector<DeviceUsage> devices(3);
  devices[0].pci.bus = devices[1].pci.bus = 5;
  devices[0].uuid = {1};
  devices[1].uuid = {2};
  devices[1].is_part = true;
  devices[2].pci.bus = 5;
  devices[2].vendor = GpuVendor::hip;
  GpuIdentity gpu;
  gpu.pci.bus = 5;
  EXPECT_EQ(find_usage(devices, gpu), devices.data());
  gpu.uuid = {2};
  EXPECT_EQ(find_usage(devices, gpu), &devices[1]);
  gpu.vendor = GpuVendor::hip;
  EXPECT_EQ(find_usage(devices, gpu), &devices[2]);
  gpu.pci.bus = 6;
  EXPECT_EQ(find_usage(devices, gpu), nullptr);
}

}  // namespace
}  // namespace penstock::test
