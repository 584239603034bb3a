// SPDX-License-Identifier: Apache-2.0
// Symbols by version, injected faults, identity, and the states of a machine without a usable GPU.
#include <algorithm>
#include <cstring>
#include <string>

#include "tests/support/in_child.hpp"
#include "tests/unit/fakes/fake_cuda_fixture.hpp"

namespace penstock::fake {
namespace {

// With a variable of the environment set.
class Setting {
 public:
  Setting(const char* name, const char* value) : name_(name) {
    ::setenv(name, value, 1);
    penstock_fake_read_settings();
  }
  ~Setting() {
    ::unsetenv(name_);
    penstock_fake_read_settings();
  }
  Setting(const Setting&) = delete;
  Setting& operator=(const Setting&) = delete;

 private:
  const char* name_;
};

TEST_F(FakeCuda, ASymbolIsFoundFromItsVersionOnAndNeverAboveTheDrivers) {
  void* address = nullptr;
  int status = -1;
  EXPECT_EQ(cuGetProcAddress_v2("cuMemCreate", &address, 10'020, 0, &status), cuda_success);
  EXPECT_EQ(address, reinterpret_cast<void*>(&cuMemCreate));
  EXPECT_EQ(status, cuda_proc_address_found);
  EXPECT_EQ(cuGetProcAddress_v2("cuMemCreate", &address, 10'010, 0, &status), cuda_success);
  EXPECT_EQ(address, nullptr);
  EXPECT_EQ(status, cuda_proc_address_version_not_sufficient);
  EXPECT_EQ(cuGetProcAddress_v2("cuNoSuchCall", &address, 10'020, 0, &status), cuda_success);
  EXPECT_EQ(address, nullptr);
  EXPECT_EQ(status, cuda_proc_address_not_found);
  EXPECT_EQ(cuGetProcAddress_v2("cuMemCreate", &address, 13'000, 0, &status), cuda_error_invalid_value);
  EXPECT_EQ(cuGetProcAddress("cuNoSuchCall", &address, 10'020, 0), cuda_error_not_found);
}

TEST_F(FakeCuda, ASymbolAtAVersionOfAnotherFormIsNotTheOneWeDeclare) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  void* address = nullptr;
  int status = -1;
  ASSERT_EQ(cuGetProcAddress_v2("cuCtxCreate", &address, 12'000, 0, &status), cuda_success);
  EXPECT_NE(address, reinterpret_cast<void*>(&cuCtxCreate_v2));
  EXPECT_DEATH(reinterpret_cast<CudaContextCreate>(address)(nullptr, 0, 0), "where its parameters differ");
  ASSERT_EQ(cuGetProcAddress_v2("cuCtxCreate", &address, 3'020, 0, &status), cuda_success);
  EXPECT_EQ(address, reinterpret_cast<void*>(&cuCtxCreate_v2));
}

TEST_F(FakeCuda, TheStubAnswersOnlyThatItIsOne) {
  const Setting stub("PENSTOCK_FAKE_STUB", "1");
  void* address = nullptr;
  int status = 0;
  EXPECT_EQ(cuInit(0), cuda_error_stub_library);
  EXPECT_EQ(cuGetProcAddress_v2("cuInit", &address, 2'000, 0, &status), cuda_error_stub_library);
  EXPECT_EQ(status, -1);
}

TEST_F(FakeCuda, WithoutAVisibleDeviceInitFails) {
  const Setting none("CUDA_VISIBLE_DEVICES", "");
  EXPECT_EQ(cuInit(0), cuda_error_no_device);
}

TEST_F(FakeCuda, VisibleDevicesRenumberAndIdentityStays) {
  const Setting two("PENSTOCK_FAKE_DEVICES", "2");
  CudaUuid first{}, second{}, renumbered{};
  ASSERT_EQ(cuDeviceGetUuid_v2(&first, 0), cuda_success);
  ASSERT_EQ(cuDeviceGetUuid_v2(&second, 1), cuda_success);
  EXPECT_NE(std::memcmp(&first, &second, 4), 0) << "the short names must differ";
  const Setting swapped("CUDA_VISIBLE_DEVICES", "1,0");
  ASSERT_EQ(cuDeviceGetUuid_v2(&renumbered, 0), cuda_success);
  EXPECT_EQ(std::memcmp(&renumbered, &second, sizeof second), 0);
  std::string pci(16, 0);
  ASSERT_EQ(cuDeviceGetPCIBusId(pci.data(), static_cast<int>(pci.size()), 0), cuda_success);
  EXPECT_STREQ(pci.c_str(), "0000:82:00.0");
}

TEST_F(FakeCuda, WithoutVmmItsCallsAreNotSupported) {
  const Setting old("PENSTOCK_FAKE_NO_VMM", "1");
  int supported = -1;
  EXPECT_EQ(cuDeviceGetAttribute(&supported, cuda_attribute_virtual_memory_management_supported, 0),
            cuda_success);
  EXPECT_EQ(supported, 0);
  const CudaMemProperties properties = device_memory();
  CudaMemHandle handle = 0;
  EXPECT_EQ(cuMemCreate(&handle, frame_bytes, &properties, 0), cuda_error_not_supported);
}

TEST_F(FakeCudaStream, PlainAllocationsWorkWithoutVmm) {
  const Setting old("PENSTOCK_FAKE_NO_VMM", "1");
  CudaAddress address = 0;
  ASSERT_EQ(cuMemAlloc_v2(&address, 100), cuda_success);
  std::size_t free_bytes = 0, total_bytes = 0;
  ASSERT_EQ(cuMemGetInfo_v2(&free_bytes, &total_bytes), cuda_success);
  EXPECT_EQ(total_bytes - free_bytes, 2 * mebibyte);
  EXPECT_EQ(cuMemsetD32Async(address, 7, 25, stream), cuda_success);
  EXPECT_EQ(cuMemFree_v2(address), cuda_success);
}

TEST_F(FakeCuda, FaultsComeByCallAndCount) {
  penstock_fake_set_faults("cuMemCreate:2@2;cuMemRelease:999@2+");
  const CudaMemHandle first = create();
  const CudaMemProperties properties = device_memory();
  CudaMemHandle second = 0;
  EXPECT_EQ(cuMemCreate(&second, frame_bytes, &properties, 0), cuda_error_out_of_memory);
  EXPECT_EQ(penstock_fake_call_count("cuMemCreate"), 2U);
  EXPECT_EQ(cuMemRelease(first), cuda_success);
  EXPECT_EQ(cuMemRelease(first), cuda_error_unknown);
  EXPECT_EQ(cuMemRelease(first), cuda_error_unknown);
}

TEST_F(FakeCudaStream, AFaultMayTakeTheContextWithIt) {
  penstock_fake_set_faults("cuStreamQuery:719!@1");
  EXPECT_EQ(cuStreamQuery(stream), cuda_error_launch_failed);
  EXPECT_EQ(cuStreamQuery(stream), cuda_error_launch_failed);
  EXPECT_EQ(cuCtxSynchronize(), cuda_error_launch_failed);
}

TEST_F(FakeCuda, CallsThatNeedAContextSayWhenThereIsNone) {
  std::size_t free_bytes = 0, total_bytes = 0;
  EXPECT_EQ(cuMemGetInfo_v2(&free_bytes, &total_bytes), cuda_error_invalid_context);
  CudaContext context = nullptr;
  ASSERT_EQ(cuDevicePrimaryCtxRetain(&context, 0), cuda_success);
  ASSERT_EQ(cuCtxPushCurrent_v2(context), cuda_success);
  EXPECT_EQ(cuMemGetInfo_v2(&free_bytes, &total_bytes), cuda_success);
  EXPECT_EQ(cuDevicePrimaryCtxRelease_v2(0), cuda_success);
  EXPECT_EQ(cuMemGetInfo_v2(&free_bytes, &total_bytes), cuda_error_context_is_destroyed);
  EXPECT_EQ(cuCtxPopCurrent_v2(&context), cuda_success);
}

TEST_F(FakeCuda, AForkedChildFindsTheDriverNotInitialised) {
  EXPECT_EQ(test::in_child([] {
              int count = 0;
              return std::to_string(cuDeviceGetCount(&count)) + " " + std::to_string(cuInit(0));
            }),
            "3 3");
}

}  // namespace
}  // namespace penstock::fake
