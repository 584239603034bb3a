// SPDX-License-Identifier: Apache-2.0
// Rules 1 to 4 of tests/fakes/DESIGN.md: what the fake driver refuses, and when memory goes back.
#include <fcntl.h>
#include <sys/mman.h>

#include "dataplane/base/unique_fd.hpp"
#include "tests/unit/fakes/fake_cuda_fixture.hpp"

namespace penstock::fake {
namespace {

UniqueFd exported(CudaMemHandle handle) {
  int fd = -1;
  EXPECT_EQ(cuMemExportToShareableHandle(&fd, handle, cuda_mem_handle_posix_fd, 0), cuda_success);
  return UniqueFd(fd);
}

void* by_value(int fd) { return reinterpret_cast<void*>(static_cast<std::uintptr_t>(fd)); }

TEST_F(FakeCuda, RefusesSizesThatAreNoMultipleOfTheGranularity) {
  CudaMemProperties properties = device_memory();
  std::size_t granularity = 0;
  ASSERT_EQ(cuMemGetAllocationGranularity(&granularity, &properties, cuda_mem_granularity_minimum),
            cuda_success);
  EXPECT_EQ(granularity, 2 * mebibyte);
  CudaMemHandle handle = 0;
  EXPECT_EQ(cuMemCreate(&handle, granularity + 4096, &properties, 0), cuda_error_invalid_value);
  EXPECT_EQ(cuMemCreate(&handle, 0, &properties, 0), cuda_error_invalid_value);
  EXPECT_EQ(cuMemCreate(&handle, granularity, &properties, 1), cuda_error_invalid_value);
  CudaAddress address = 0;
  EXPECT_EQ(cuMemAddressReserve(&address, 4096, 0, 0, 0), cuda_error_invalid_value);
  EXPECT_EQ(cuMemAddressReserve(&address, granularity, 3 * mebibyte, 0, 0), cuda_error_invalid_value);
}

TEST_F(FakeCuda, RefusesPropertiesThatNoGpuHas) {
  CudaMemHandle handle = 0;
  CudaMemProperties properties = device_memory();
  properties.type = 0;
  EXPECT_EQ(cuMemCreate(&handle, frame_bytes, &properties, 0), cuda_error_invalid_value);
  properties = device_memory();
  properties.location.id = 1;
  EXPECT_EQ(cuMemCreate(&handle, frame_bytes, &properties, 0), cuda_error_invalid_device);
  properties = device_memory();
  properties.reserved[2] = 1;
  EXPECT_EQ(cuMemCreate(&handle, frame_bytes, &properties, 0), cuda_error_invalid_value);
}

TEST_F(FakeCuda, ExportsOnlyWhatWasMadeForExport) {
  CudaMemHandle handle = 0;
  const CudaMemProperties properties = device_memory(cuda_mem_handle_none);
  ASSERT_EQ(cuMemCreate(&handle, frame_bytes, &properties, 0), cuda_success);
  int fd = -1;
  EXPECT_EQ(cuMemExportToShareableHandle(&fd, handle, cuda_mem_handle_posix_fd, 0), cuda_error_invalid_value);
  EXPECT_EQ(cuMemRelease(handle), cuda_success);
}

TEST_F(FakeCuda, AnExportedDescriptorIsNotCloseOnExec) {
  const CudaMemHandle handle = create();
  const UniqueFd fd = exported(handle);
  EXPECT_EQ(::fcntl(fd.get(), F_GETFD) & FD_CLOEXEC, 0);
  EXPECT_EQ(cuMemRelease(handle), cuda_success);
}

TEST_F(FakeCuda, ImportsTwiceUnderUnrelatedHandles) {
  const CudaMemHandle handle = create();
  const UniqueFd fd = exported(handle);
  CudaMemHandle first = 0, second = 0;
  ASSERT_EQ(cuMemImportFromShareableHandle(&first, by_value(fd.get()), cuda_mem_handle_posix_fd),
            cuda_success);
  ASSERT_EQ(cuMemImportFromShareableHandle(&second, by_value(fd.get()), cuda_mem_handle_posix_fd),
            cuda_success);
  EXPECT_NE(first, second);
  EXPECT_NE(first, handle);
  EXPECT_EQ(penstock_fake_used_bytes(0), frame_bytes);
  for (const CudaMemHandle each : {handle, first, second}) EXPECT_EQ(cuMemRelease(each), cuda_success);
}

TEST_F(FakeCuda, RefusesToImportWhatIsNoFrame) {
  const UniqueFd other(::memfd_create("other", MFD_CLOEXEC));
  CudaMemHandle handle = 0;
  EXPECT_EQ(cuMemImportFromShareableHandle(&handle, by_value(other.get()), cuda_mem_handle_posix_fd),
            cuda_error_invalid_value);
  int pointed_to = other.get();
  EXPECT_EQ(cuMemImportFromShareableHandle(&handle, &pointed_to, cuda_mem_handle_posix_fd),
            cuda_error_invalid_value);
}

TEST_F(FakeCuda, MapsWithoutOffsetAndOnce) {
  const CudaAddress address = reserve(2 * frame_bytes);
  const CudaMemHandle handle = create();
  EXPECT_EQ(cuMemMap(address, frame_bytes, 2 * mebibyte, handle, 0), cuda_error_invalid_value);
  EXPECT_EQ(cuMemMap(address, 2 * frame_bytes, 0, handle, 0), cuda_error_invalid_value);
  EXPECT_EQ(cuMemMap(address + frame_bytes + 2 * mebibyte, frame_bytes, 0, handle, 0),
            cuda_error_invalid_value);
  EXPECT_EQ(cuMemMap(address, frame_bytes, 0, handle, 0), cuda_success);
  EXPECT_EQ(cuMemMap(address, frame_bytes, 0, handle, 0), cuda_error_invalid_value);
  EXPECT_EQ(cuMemMap(address + 2 * mebibyte, frame_bytes, 0, handle, 0), cuda_error_invalid_value);
  EXPECT_EQ(cuMemRelease(handle), cuda_success);
  EXPECT_EQ(cuMemUnmap(address, frame_bytes), cuda_success);
  EXPECT_EQ(cuMemAddressFree(address, 2 * frame_bytes), cuda_success);
}

TEST_F(FakeCuda, UnmapsAndSetsAccessInWholeMappings) {
  const CudaAddress address = reserve(2 * frame_bytes);
  const CudaMemHandle first = create(), second = create();
  ASSERT_EQ(cuMemMap(address, frame_bytes, 0, first, 0), cuda_success);
  EXPECT_EQ(set_access(address, 2 * frame_bytes, cuda_mem_access_read), cuda_error_invalid_value);
  ASSERT_EQ(cuMemMap(address + frame_bytes, frame_bytes, 0, second, 0), cuda_success);
  EXPECT_EQ(set_access(address, 2 * frame_bytes, cuda_mem_access_read), cuda_success);
  EXPECT_EQ(set_access(address, frame_bytes, 2), cuda_error_invalid_value);
  unsigned long long flags = 0;
  const CudaMemLocation location{.type = cuda_mem_location_device, .id = 0};
  EXPECT_EQ(cuMemGetAccess(&flags, &location, address + frame_bytes), cuda_success);
  EXPECT_EQ(flags, cuda_mem_access_read);
  EXPECT_EQ(cuMemUnmap(address, 2 * mebibyte), cuda_error_invalid_value);
  EXPECT_EQ(cuMemUnmap(address + 2 * mebibyte, frame_bytes), cuda_error_invalid_value);
  EXPECT_EQ(cuMemAddressFree(address, 2 * frame_bytes), cuda_error_invalid_value);
  EXPECT_EQ(cuMemUnmap(address, 2 * frame_bytes), cuda_success);
  EXPECT_EQ(cuMemUnmap(address, 2 * frame_bytes), cuda_error_invalid_value);
  EXPECT_EQ(cuMemAddressFree(address, frame_bytes), cuda_error_invalid_value);
  EXPECT_EQ(cuMemAddressFree(address, 2 * frame_bytes), cuda_success);
  EXPECT_EQ(cuMemRelease(first), cuda_success);
  EXPECT_EQ(cuMemRelease(second), cuda_success);
}

TEST_F(FakeCuda, GivesMemoryBackWithTheLastReference) {
  const CudaMemHandle handle = create();
  UniqueFd fd = exported(handle);
  const CudaAddress address = reserve(frame_bytes);
  ASSERT_EQ(cuMemMap(address, frame_bytes, 0, handle, 0), cuda_success);
  EXPECT_EQ(cuMemRelease(handle), cuda_success);
  EXPECT_EQ(penstock_fake_used_bytes(0), frame_bytes);
  EXPECT_EQ(cuMemUnmap(address, frame_bytes), cuda_success);
  EXPECT_EQ(penstock_fake_used_bytes(0), frame_bytes) << "the descriptor keeps it";
  fd.reset();
  EXPECT_EQ(penstock_fake_used_bytes(0), 0U);
  EXPECT_EQ(cuMemAddressFree(address, frame_bytes), cuda_success);
}

TEST_F(FakeCuda, RunsOutOfMemoryAndRecovers) {
  ::setenv("PENSTOCK_FAKE_DEVICE_BYTES", "12MiB", 1);
  penstock_fake_read_settings();
  CudaMemHandle handles[3] = {create(), create(), create()};
  const CudaMemProperties properties = device_memory();
  CudaMemHandle more = 0;
  EXPECT_EQ(cuMemCreate(&more, frame_bytes, &properties, 0), cuda_error_out_of_memory);
  EXPECT_EQ(cuMemRelease(handles[1]), cuda_success);
  EXPECT_EQ(cuMemCreate(&handles[1], frame_bytes, &properties, 0), cuda_success);
  for (const CudaMemHandle each : handles) EXPECT_EQ(cuMemRelease(each), cuda_success);
  ::unsetenv("PENSTOCK_FAKE_DEVICE_BYTES");
  penstock_fake_read_settings();
}

TEST_F(FakeCuda, FreshMemoryIsNotZero) {
  const CudaAddress address = mapped_frame();
  EXPECT_EQ(*reinterpret_cast<const unsigned char*>(address), 0xa5);
  give_back(address);
}

}  // namespace
}  // namespace penstock::fake
