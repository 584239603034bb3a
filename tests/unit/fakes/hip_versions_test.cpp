// SPDX-License-Identifier: Apache-2.0
// Rule 10 of tests/fakes/DESIGN.md: what the versions of HIP do differently.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "dataplane/base/unique_fd.hpp"
#include "tests/fakes/fake_control.h"
#include "tests/fakes/hip/declarations.hpp"

extern "C" {
std::uint64_t penstock_fake_used_bytes(int device);
void penstock_fake_live(penstock::FakeLive* live);
void penstock_fake_read_settings(void);
}

namespace penstock::fake {
namespace {

constexpr std::uint64_t frame_bytes = std::uint64_t{4} << 20;

HipMemProperties device_memory() {
  HipMemProperties properties{};
  properties.type = hip_mem_allocation_pinned;
  properties.handle_types = hip_mem_handle_posix_fd;
  properties.location = {.type = hip_mem_location_device, .id = 0};
  return properties;
}

class FakeHip : public ::testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
  void TearDown() override {
    FakeLive live{};
    penstock_fake_live(&live);
    EXPECT_EQ(live.handles + live.mappings + live.reserved_bytes, 0U);
    EXPECT_EQ(penstock_fake_used_bytes(0), 0U);
    ::unsetenv("PENSTOCK_FAKE_HIP_VERSION");
    ::unsetenv("PENSTOCK_FAKE_DEVICES");
    penstock_fake_read_settings();
  }
  static void become(const char* version) {
    ::setenv("PENSTOCK_FAKE_HIP_VERSION", version, 1);
    penstock_fake_read_settings();
  }
  static HipMemHandle create() {
    const HipMemProperties properties = device_memory();
    HipMemHandle handle = nullptr;
    EXPECT_EQ(hipMemCreate(&handle, frame_bytes, &properties, 0), hip_success);
    return handle;
  }
  static UniqueFd exported(HipMemHandle handle) {
    int fd = -1;
    EXPECT_EQ(hipMemExportToShareableHandle(&fd, handle, hip_mem_handle_posix_fd, 0), hip_success);
    return UniqueFd(fd);
  }
  static HipAddress reserve() {
    HipAddress address = nullptr;
    EXPECT_EQ(hipMemAddressReserve(&address, frame_bytes, frame_bytes, nullptr, 0), hip_success);
    return address;
  }
  static HipResult set_access(HipAddress address, std::uint64_t bytes, int flags) {
    const HipMemAccess access{.location = {.type = hip_mem_location_device, .id = 0}, .flags = flags};
    return hipMemSetAccess(address, bytes, &access, 1);
  }
  static void protect(HipAddress address) {
    ASSERT_NE(::mmap(address, frame_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED,
                     -1, 0),
              MAP_FAILED);
  }
  static void* by_value(int fd) { return reinterpret_cast<void*>(static_cast<std::uintptr_t>(fd)); }
};
using FakeHipDeathTest = FakeHip;

TEST_F(FakeHip, TheVersionAnswersBeforeAnythingElse) {
  int version = 0;
  EXPECT_EQ(hipRuntimeGetVersion(&version), hip_success);
  EXPECT_EQ(version, 70'100'000);
  become("5.2");
  EXPECT_EQ(hipRuntimeGetVersion(&version), hip_success);
  EXPECT_EQ(version, 50'200'000);
}

TEST_F(FakeHip, WithoutADeviceItSaysSo) {
  ::setenv("PENSTOCK_FAKE_DEVICES", "0", 1);
  penstock_fake_read_settings();
  EXPECT_EQ(hipInit(0), hip_error_invalid_device);
}

TEST_F(FakeHip, Version52HasNoVmmAndReadsTheOldLayout) {
  become("5.2");
  const HipMemProperties properties = device_memory();
  HipMemHandle handle = nullptr;
  EXPECT_EQ(hipMemCreate(&handle, frame_bytes, &properties, 0), hip_error_not_supported);
  // Even if a build of it had VMM, today's layout would be refused.
  ::setenv("PENSTOCK_FAKE_HIP_VERSION", "6.2", 1);
  ::setenv("PENSTOCK_FAKE_QUIRKS", "+old_layout", 1);
  penstock_fake_read_settings();
  EXPECT_EQ(hipMemCreate(&handle, frame_bytes, &properties, 0), hip_error_invalid_value);
  ::unsetenv("PENSTOCK_FAKE_QUIRKS");
}

TEST_F(FakeHip, Version61SharesNothingAndKnowsNoReadOnly) {
  become("6.1");
  const HipMemHandle handle = create();
  int fd = -1;
  EXPECT_EQ(hipMemExportToShareableHandle(&fd, handle, hip_mem_handle_posix_fd, 0), hip_error_not_supported);
  const HipAddress address = reserve();
  ASSERT_EQ(hipMemMap(address, frame_bytes, 0, handle, 0), hip_success);
  EXPECT_EQ(set_access(address, frame_bytes, hip_mem_access_read), hip_error_invalid_value);
  EXPECT_EQ(set_access(address, frame_bytes, hip_mem_access_read_write), hip_success);
  EXPECT_EQ(hipMemUnmap(address, frame_bytes), hip_success);
  protect(address);
  EXPECT_EQ(hipMemAddressFree(address, frame_bytes), hip_success);
  EXPECT_EQ(hipMemRelease(handle), hip_success);
}

class FakeHipByPointer : public FakeHip, public ::testing::WithParamInterface<const char*> {};
INSTANTIATE_TEST_SUITE_P(Below71, FakeHipByPointer, ::testing::Values("6.2", "7.0"));

TEST_P(FakeHipByPointer, ImportFollowsAPointerToTheDescriptor) {
  become(GetParam());
  const HipMemHandle handle = create();
  UniqueFd fd = exported(handle);
  int number = fd.get();
  HipMemHandle imported = nullptr;
  EXPECT_DEATH(hipMemImportFromShareableHandle(&imported, by_value(number), hip_mem_handle_posix_fd),
               "this version follows a pointer");
  EXPECT_EQ(hipMemImportFromShareableHandle(&imported, &number, hip_mem_handle_posix_fd), hip_success);
  EXPECT_EQ(hipMemRelease(imported), hip_success);
  EXPECT_EQ(hipMemRelease(handle), hip_success);
}

TEST_F(FakeHip, From71OnTheDescriptorIsTheValueAndAPointerIsAnError) {
  const HipMemHandle handle = create();
  UniqueFd fd = exported(handle);
  int number = fd.get();
  HipMemHandle imported = nullptr;
  EXPECT_EQ(hipMemImportFromShareableHandle(&imported, &number, hip_mem_handle_posix_fd),
            hip_error_invalid_value);
  EXPECT_EQ(hipMemImportFromShareableHandle(&imported, by_value(number), hip_mem_handle_posix_fd),
            hip_success);
  EXPECT_EQ(hipMemRelease(imported), hip_success);
  EXPECT_EQ(hipMemRelease(handle), hip_success);
}

TEST_F(FakeHip, ADescriptorClosedBeforeAccessIsSetMakesItFail) {
  const HipMemHandle handle = create();
  UniqueFd fd = exported(handle);
  UniqueFd copy(::fcntl(fd.get(), F_DUPFD_CLOEXEC, 0));
  HipMemHandle imported = nullptr;
  ASSERT_EQ(hipMemImportFromShareableHandle(&imported, by_value(copy.get()), hip_mem_handle_posix_fd),
            hip_success);
  const HipAddress address = reserve();
  ASSERT_EQ(hipMemMap(address, frame_bytes, 0, imported, 0), hip_success);
  copy.reset();
  EXPECT_EQ(set_access(address, frame_bytes, hip_mem_access_read), hip_error_invalid_value);
  fd.reset();
  int again = -1;
  EXPECT_EQ(hipMemExportToShareableHandle(&again, handle, hip_mem_handle_posix_fd, 0),
            hip_error_invalid_value)
      << "the first exported descriptor is closed";
  EXPECT_EQ(hipMemUnmap(address, frame_bytes), hip_success);
  protect(address);
  EXPECT_EQ(hipMemAddressFree(address, frame_bytes), hip_success);
  EXPECT_EQ(hipMemRelease(imported), hip_success);
  EXPECT_EQ(hipMemRelease(handle), hip_success);
}

TEST_F(FakeHipDeathTest, ARangeLeftOpenAfterItsUnmapIsFoundOut) {
  const HipMemHandle handle = create();
  const HipAddress address = reserve();
  ASSERT_EQ(hipMemMap(address, frame_bytes, 0, handle, 0), hip_success);
  EXPECT_EQ(hipMemUnmap(address, frame_bytes), hip_success);
  EXPECT_DEATH(hipMemMap(address, frame_bytes, 0, handle, 0), "not protected again");
  EXPECT_DEATH(hipMemAddressFree(address, frame_bytes), "not protected again");
  protect(address);
  EXPECT_EQ(hipMemAddressFree(address, frame_bytes), hip_success);
  EXPECT_EQ(hipMemRelease(handle), hip_success);
}

TEST_F(FakeHip, Version72GivesMemoryBackOnlyWithTheAddressRange) {
  become("7.2");
  const HipMemHandle handle = create();
  const HipAddress address = reserve();
  ASSERT_EQ(hipMemMap(address, frame_bytes, 0, handle, 0), hip_success);
  EXPECT_EQ(hipMemUnmap(address, frame_bytes), hip_success);
  protect(address);
  EXPECT_EQ(hipMemRelease(handle), hip_success);
  EXPECT_EQ(penstock_fake_used_bytes(0), frame_bytes);
  EXPECT_EQ(hipMemAddressFree(address, frame_bytes), hip_success);
  EXPECT_EQ(penstock_fake_used_bytes(0), 0U);
}

// Of two frames in one range neither comes back before both are unmapped and the range is freed.
TEST_F(FakeHip, Version72GivesAGroupInOneRangeBackTogether) {
  become("7.2");
  const HipMemHandle first = create(), second = create();
  HipAddress group = nullptr;
  ASSERT_EQ(hipMemAddressReserve(&group, 2 * frame_bytes, 0, nullptr, 0), hip_success);
  const HipAddress behind = static_cast<char*>(group) + frame_bytes;
  ASSERT_EQ(hipMemMap(group, frame_bytes, 0, first, 0), hip_success);
  ASSERT_EQ(hipMemMap(behind, frame_bytes, 0, second, 0), hip_success);
  for (const HipMemHandle handle : {first, second}) EXPECT_EQ(hipMemRelease(handle), hip_success);
  EXPECT_EQ(hipMemUnmap(group, frame_bytes), hip_success);
  protect(group);
  EXPECT_EQ(penstock_fake_used_bytes(0), 2 * frame_bytes);
  EXPECT_EQ(hipMemUnmap(behind, frame_bytes), hip_success);
  protect(behind);
  EXPECT_EQ(penstock_fake_used_bytes(0), 2 * frame_bytes);
  EXPECT_EQ(hipMemAddressFree(group, 2 * frame_bytes), hip_success);
  EXPECT_EQ(penstock_fake_used_bytes(0), 0U);
}

// Of the versions after it nobody tells so; the self-test measures each.
TEST_F(FakeHip, OtherVersionsGiveMemoryBackWithItsLastUse) {
  for (const char* version : {"6.2", "6.4", "7.1", "7.3", "7.14"}) {
    become(version);
    const HipMemHandle handle = create();
    const HipAddress address = reserve();
    ASSERT_EQ(hipMemMap(address, frame_bytes, 0, handle, 0), hip_success);
    EXPECT_EQ(hipMemUnmap(address, frame_bytes), hip_success);
    protect(address);
    EXPECT_EQ(hipMemRelease(handle), hip_success);
    EXPECT_EQ(penstock_fake_used_bytes(0), 0U) << version;
    EXPECT_EQ(hipMemAddressFree(address, frame_bytes), hip_success);
  }
}

TEST_F(FakeHipDeathTest, MemoryIsMadeOnTheCurrentDevice) {
  ::setenv("PENSTOCK_FAKE_DEVICES", "2", 1);
  penstock_fake_read_settings();
  ASSERT_EQ(hipSetDevice(1), hip_success);
  const HipMemProperties properties = device_memory();
  HipMemHandle handle = nullptr;
  EXPECT_DEATH(hipMemCreate(&handle, frame_bytes, &properties, 0), "device 0 while device 1 is current");
  ASSERT_EQ(hipSetDevice(0), hip_success);
}

TEST_F(FakeHipDeathTest, OldVersionsDieOfAnUnknownAddress) {
  become("6.2");
  EXPECT_DEATH(hipMemUnmap(nullptr, frame_bytes), "unmap of an unknown range");
  EXPECT_DEATH(hipMemAddressFree(nullptr, frame_bytes), "address free of an unknown range");
  become("7.1");
  EXPECT_EQ(hipMemUnmap(nullptr, frame_bytes), hip_error_invalid_value);
  EXPECT_EQ(hipMemAddressFree(nullptr, frame_bytes), hip_error_unknown);
}

TEST_F(FakeHip, Below70AnUnmapIsOfOneMapping) {
  for (const char* const version : {"6.2", "6.4", "7.0"}) {
    become(version);
    const HipMemHandle handle = create();
    const HipAddress address = reserve();
    const HipAddress middle = static_cast<std::byte*>(address) + frame_bytes / 2;
    ASSERT_EQ(hipMemMap(address, frame_bytes / 2, 0, handle, 0), hip_success);
    ASSERT_EQ(hipMemMap(middle, frame_bytes / 2, 0, handle, 0), hip_success);
    if (version[0] == '6') {
      EXPECT_EQ(hipMemUnmap(address, frame_bytes), hip_error_invalid_value) << version;
      EXPECT_EQ(hipMemUnmap(address, frame_bytes / 2), hip_success) << version;
      EXPECT_EQ(hipMemUnmap(middle, frame_bytes / 2), hip_success) << version;
    } else {
      EXPECT_EQ(hipMemUnmap(address, frame_bytes), hip_success);
    }
    protect(address);
    EXPECT_EQ(hipMemAddressFree(address, frame_bytes), hip_success);
    EXPECT_EQ(hipMemRelease(handle), hip_success);
  }
}

TEST_F(FakeHip, AccessComesInStepsOf2MiBThoughMemoryDoesNot) {
  const HipMemProperties properties = device_memory();
  std::size_t granularity = 0;
  ASSERT_EQ(hipMemGetAllocationGranularity(&granularity, &properties, hip_mem_granularity_minimum),
            hip_success);
  EXPECT_EQ(granularity, 4096U);
  HipMemHandle handle = nullptr;
  ASSERT_EQ(hipMemCreate(&handle, granularity, &properties, 0), hip_success);
  const HipAddress address = reserve();
  ASSERT_EQ(hipMemMap(address, granularity, 0, handle, 0), hip_success);
  EXPECT_EQ(set_access(address, granularity, hip_mem_access_read), hip_error_invalid_value);
  EXPECT_EQ(hipMemUnmap(address, granularity), hip_success);
  protect(address);
  EXPECT_EQ(hipMemAddressFree(address, frame_bytes), hip_success);
  EXPECT_EQ(hipMemRelease(handle), hip_success);
}

}  // namespace
}  // namespace penstock::fake
