// SPDX-License-Identifier: Apache-2.0
// Trouble on demand: calls that hang or kill, no descriptors left, memory that goes back late, contexts that cost.
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/time.h>

#include <array>
#include <cstdlib>
#include <thread>
#include <vector>

#include "dataplane/base/unique_fd.hpp"
#include "tests/support/eventually.hpp"
#include "tests/unit/fakes/fake_cuda_fixture.hpp"

namespace penstock::fake {
namespace {

using FakeCudaTroubleDeathTest = FakeCuda;

void set(const char* name, const char* value) {
  value == nullptr ? ::unsetenv(name) : ::setenv(name, value, 1);
  penstock_fake_read_settings();
}

void create_under_a_timer() {
  const itimerval soon{.it_interval = {}, .it_value = {.tv_sec = 0, .tv_usec = 50'000}};
  ::setitimer(ITIMER_REAL, &soon, nullptr);
  create();
}

void create_without_descriptors() {
  const rlimit none{.rlim_cur = 3, .rlim_max = 3};
  ::setrlimit(RLIMIT_NOFILE, &none);
  const CudaMemProperties properties = device_memory();
  CudaMemHandle handle = 0;
  ::_exit(cuMemCreate(&handle, frame_bytes, &properties, 0));
}

TEST_F(FakeCudaTroubleDeathTest, ACallMayHangOrKill) {
  penstock_fake_set_faults("cuMemCreate:hang@1");
  EXPECT_EXIT(create_under_a_timer(), ::testing::KilledBySignal(SIGALRM), "");
  penstock_fake_set_faults("cuMemCreate:kill@1");
  EXPECT_EXIT(create(), ::testing::KilledBySignal(SIGKILL), "");
}

TEST_F(FakeCudaTroubleDeathTest, ACallMayBeRefusedOnceItIsDone) {
  const CudaMemHandle handle = create();
  penstock_fake_set_faults("cuMemRelease:999~@1");
  EXPECT_EQ(cuMemRelease(handle), cuda_error_unknown);
  penstock_fake_set_faults("");
}

TEST_F(FakeCudaTroubleDeathTest, NoDescriptorLeftReadsAsOutOfMemory) {
  EXPECT_EQ(cuMemRelease(create()), cuda_success);  // The ledger is open.
  EXPECT_EXIT(create_without_descriptors(), ::testing::ExitedWithCode(cuda_error_out_of_memory), "");
}

TEST_F(FakeCudaTroubleDeathTest, APlanThatIsNoneEndsTheTest) {
  EXPECT_DEATH(penstock_fake_set_faults("cuMemCreate"), "expected NAME:ACTION");
  EXPECT_DEATH(penstock_fake_set_faults("cuMemCreate:often"), "expected NAME:ACTION");
}

CudaResult count_on_a_thread(const char* name, const char* rule) {
  set("PENSTOCK_FAKE_CALLERS", rule);
  CudaResult result = cuda_error_unknown;
  std::thread([&] {
    ::pthread_setname_np(::pthread_self(), name);
    int count = 0;
    result = cuDeviceGetCount(&count);
  }).join();
  set("PENSTOCK_FAKE_CALLERS", nullptr);
  return result;
}

TEST_F(FakeCudaTroubleDeathTest, OfAProgramThatIsNamedOnlyTheNamedThreadsMayCall) {
  constexpr const char* rule = "unit_fake_cuda:maker,opener";
  EXPECT_DEATH(count_on_a_thread("main", rule), "cuDeviceGetCount: thread 'main' of unit_fake_cuda must not");
  EXPECT_DEATH(count_on_a_thread("make", rule), "cuDeviceGetCount: thread 'make' of unit_fake_cuda must not");
  EXPECT_EQ(count_on_a_thread("maker", rule), cuda_success);
  EXPECT_EQ(count_on_a_thread("opener", rule), cuda_success);
  EXPECT_EQ(count_on_a_thread("main", "another:maker"), cuda_success);
  EXPECT_DEATH(count_on_a_thread("main", "unit_fake_cuda"), "expected PROGRAM:THREAD");
}

// Takes locks, many at a time, and gives them back until it is killed.
[[noreturn]] void lock_and_unlock() {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (;;) {
    std::vector<UniqueFd> held;
    for (int at = 0; at < 64; ++at) {
      held.emplace_back(::memfd_create("other", MFD_CLOEXEC));
      struct flock lock {};
      lock.l_type = F_WRLCK;
      ::fcntl(held.back().get(), F_OFD_SETLK, &lock);
    }
  }
}

TEST_F(FakeCuda, LocksOfOtherProcessesHideNoFrame) {
  constexpr int frames = 100, looks = 300;
  std::array<pid_t, 2> others{};
  for (pid_t& other : others) {
    other = ::fork();
    if (other == 0) lock_and_unlock();
  }
  std::vector<CudaMemHandle> handles;
  for (int frame = 0; frame < frames; ++frame) handles.push_back(create());
  int wrong = 0;
  for (int look = 0; look < looks; ++look) wrong += penstock_fake_frames(0) != frames ? 1 : 0;
  EXPECT_EQ(wrong, 0);
  for (const pid_t other : others) {
    ::kill(other, SIGKILL);
    ::waitpid(other, nullptr, 0);
  }
  for (const CudaMemHandle handle : handles) EXPECT_EQ(cuMemRelease(handle), cuda_success);
}

TEST_F(FakeCuda, MemoryMayGoBackLate) {
  set("PENSTOCK_FAKE_GIVE_BACK_MS", "30");
  EXPECT_EQ(cuMemRelease(create()), cuda_success);
  EXPECT_EQ(penstock_fake_used_bytes(0), frame_bytes);
  EXPECT_TRUE(eventually([] { return penstock_fake_used_bytes(0) == 0; }));
  set("PENSTOCK_FAKE_GIVE_BACK_MS", nullptr);
}

TEST_F(FakeCuda, AContextCostsWhatWasSaid) {
  set("PENSTOCK_FAKE_CONTEXT_BYTES", "64MiB");
  CudaContext context = nullptr;
  ASSERT_EQ(cuCtxCreate_v2(&context, 0, 0), cuda_success);
  EXPECT_EQ(penstock_fake_used_bytes(0), 64 * mebibyte);
  EXPECT_EQ(cuCtxDestroy_v2(context), cuda_success);
  EXPECT_EQ(penstock_fake_used_bytes(0), 0U);
  set("PENSTOCK_FAKE_CONTEXT_BYTES", nullptr);
}

TEST_F(FakeCuda, ManyFramesAreSparseAndCheap) {
  constexpr std::uint64_t large = std::uint64_t{32} << 20;
  set("PENSTOCK_FAKE_DEVICE_BYTES", "24GiB");
  std::vector<CudaMemHandle> handles(768);
  const CudaMemProperties properties = device_memory();
  const CudaAddress address = reserve(handles.size() * large);
  for (std::size_t i = 0; i < handles.size(); ++i) {
    ASSERT_EQ(cuMemCreate(&handles[i], large, &properties, 0), cuda_success);
    ASSERT_EQ(cuMemMap(address + i * large, large, 0, handles[i], 0), cuda_success);
    ASSERT_EQ(cuMemRelease(handles[i]), cuda_success);
  }
  EXPECT_EQ(set_access(address, handles.size() * large, cuda_mem_access_read), cuda_success);
  EXPECT_EQ(penstock_fake_frames(0), 768U);
  EXPECT_EQ(cuMemUnmap(address, handles.size() * large), cuda_success);
  EXPECT_EQ(cuMemAddressFree(address, handles.size() * large), cuda_success);
  set("PENSTOCK_FAKE_DEVICE_BYTES", nullptr);
}

}  // namespace
}  // namespace penstock::fake
