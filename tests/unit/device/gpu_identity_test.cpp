// SPDX-License-Identifier: Apache-2.0
#include "dataplane/device/gpu/gpu_identity.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "dataplane/device/gpu/driver_code.hpp"
#include "dataplane/device/hip/hip_quirks.hpp"

namespace penstock {
namespace {

GpuIdentity gpu(GpuVendor vendor, std::uint8_t first, std::uint8_t bus) {
  GpuIdentity identity;
  identity.vendor = vendor;
  std::iota(identity.uuid.begin(), identity.uuid.end(), first);
  identity.pci.bus = bus;
  return identity;
}

GpuIdentity serial(std::string_view digits, std::uint8_t bus) {
  GpuIdentity identity = gpu(GpuVendor::hip, 0, bus);
  std::ranges::copy(digits, identity.uuid.begin());
  return identity;
}

TEST(GpuIdentity, IsNamedByItsUuid) {
  std::vector<GpuIdentity> gpus{gpu(GpuVendor::cuda, 0x10, 1), gpu(GpuVendor::cuda, 0xa0, 2)};
  name_gpus(gpus);
  EXPECT_EQ(gpus[0].id, "cuda-10111213");
  EXPECT_EQ(gpus[1].id, "cuda-a0a1a2a3");
  EXPECT_EQ(uuid_text(gpus[0]), "10111213-1415-1617-1819-1a1b1c1d1e1f");
}

TEST(GpuIdentity, DoesNotChangeWithTheOrder) {
  std::vector<GpuIdentity> gpus{serial("0000001000abcdef", 1), serial("0000000012345678", 2),
                                serial("0000000012345678", 3)};
  name_gpus(gpus);
  EXPECT_EQ(gpus[0].id, "hip-00abcdff");
  EXPECT_NE(gpus[1].id, gpus[2].id);
  const std::vector<std::string> before{gpus[2].id, gpus[1].id, gpus[0].id};
  std::ranges::reverse(gpus);
  name_gpus(gpus);
  EXPECT_EQ(gpus[0].id, before[0]);
  EXPECT_EQ(gpus[1].id, before[1]);
  EXPECT_EQ(gpus[2].id, before[2]);
}

TEST(GpuIdentity, WithoutAUuidTheAddressNamesIt) {
  std::vector<GpuIdentity> gpus{GpuIdentity{}, GpuIdentity{}};
  gpus[1].pci.bus = 7;
  name_gpus(gpus);
  EXPECT_NE(gpus[0].id, gpus[1].id);
  EXPECT_EQ(gpus[0].id.size(), std::string("cuda-xxxxxxxx").size());
}

TEST(PciAddress, IsReadInEachForm) {
  EXPECT_EQ(to_text(parse_pci_address("0000:65:00.0").value()), "0000:65:00.0");
  EXPECT_EQ(to_text(parse_pci_address("00000000:0A:1f.3").value()), "0000:0a:1f.3");
  EXPECT_EQ(to_text(parse_pci_address("0000:c1:00").value()), "0000:c1:00.0");
  for (const char* text : {"", "0000", "0000:65", "0000:65:00.", "0000:165:00.0", "x", "0000:65:00.0 "}) {
    EXPECT_FALSE(parse_pci_address(text).has_value()) << text;
  }
}

TEST(DriverCode, IsClassifiedByWhatFollowsFromIt) {
  EXPECT_EQ(classify(2), DriverClass::pressure);
  EXPECT_EQ(classify(600), DriverClass::not_ready);
  EXPECT_EQ(classify(34), DriverClass::absent);
  EXPECT_EQ(classify(100), DriverClass::absent);
  EXPECT_EQ(classify(803), DriverClass::skew);
  EXPECT_EQ(classify(4), DriverClass::device_dead);
  for (const int native : {201, 214, 700, 715, 719, 799, 805, 810}) {
    EXPECT_EQ(classify(native), DriverClass::context_dead) << native;
  }
  for (const int native : {1, 101, 401, 712, 800, 999, 12345, -1}) {
    EXPECT_EQ(classify(native), DriverClass::rejected) << native;
  }
  EXPECT_EQ(to_error({2, "cuMemCreate"}), (Error{Errc::exhausted, 2, "cuMemCreate"}));
}

TEST(HipQuirks, ArchitecturesThatNobodyTellsOfAreExperimental) {
  for (const char* name : {"gfx90a", "gfx942", "gfx1100"}) EXPECT_TRUE(is_proven(name)) << name;
  for (const char* name : {"gfx1201", "gfx1030", "gfx906", "gfx9", ""}) EXPECT_FALSE(is_proven(name)) << name;
}

TEST(HipQuirks, FollowTheVersion) {
  const auto of = [](int major, int minor) { return hip_quirks({.major = major, .minor = minor}); };
  EXPECT_EQ(of(5, 2).support, HipSupport::refused);
  EXPECT_EQ(of(6, 0).support, HipSupport::without_vmm);
  EXPECT_EQ(of(6, 1).support, HipSupport::without_vmm);
  for (const auto& [major, minor] : {std::pair{6, 2}, {6, 4}, {7, 0}}) {
    EXPECT_EQ(of(major, minor).support, HipSupport::full);
    EXPECT_EQ(of(major, minor).import, HipImport::by_pointer);
    EXPECT_EQ(of(major, minor).unmaps_one_by_one, major == 6);
    EXPECT_EQ(of(major, minor).keeps_last_failure, major == 7);
  }
  EXPECT_EQ(of(7, 1).support, HipSupport::full);
  EXPECT_EQ(of(7, 1).import, HipImport::by_value);
  EXPECT_EQ(of(7, 2).support, HipSupport::without_vmm);
  EXPECT_NE(of(7, 2).why, "");
  for (const auto& [major, minor] : {std::pair{7, 3}, {7, 9}, {8, 0}}) {
    EXPECT_EQ(of(major, minor).support, HipSupport::full);
    EXPECT_EQ(of(major, minor).import, HipImport::by_value);
    EXPECT_EQ(of(major, minor).descriptors_per_frame, 2u);
    EXPECT_FALSE(of(major, minor).unmaps_one_by_one);
    EXPECT_TRUE(of(major, minor).keeps_last_failure);
    EXPECT_EQ(of(major, minor).why, "");
  }
  for (const auto& [major, minor] : {std::pair{6, 2}, {7, 0}, {7, 1}}) {
    EXPECT_EQ(of(major, minor).descriptors_per_frame, 1u);
  }
  for (const auto& [major, minor] : {std::pair{6, 2}, {6, 4}, {7, 0}, {7, 1}, {7, 2}, {7, 3}, {7, 14}}) {
    const bool with_range = major == 7 && minor == 2;
    EXPECT_EQ(of(major, minor).memory_returns == HipReturn::with_range, with_range) << major << "." << minor;
    EXPECT_EQ(of(major, minor).support == HipSupport::full, !with_range) << major << "." << minor;
  }
  EXPECT_EQ(to_text(hip_version(50221153)), "5.2.21153");
}

}  // namespace
}  // namespace penstock
