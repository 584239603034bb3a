// SPDX-License-Identifier: Apache-2.0
// What a vendor's driver may be found in. Each case in a child, since a driver is never unloaded and reads its environment
// once; nothing of a driver is loaded in this process.
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include <dlfcn.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "dataplane/base/units.hpp"
#include "dataplane/device/gpu/gpu_device.hpp"
#include "dataplane/device/gpu/gpu_frame_writer.hpp"
#include "dataplane/device/gpu/self_test.hpp"
#include "dataplane/device/gpu/vendor.hpp"
#include "tests/support/drive_device.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/fake_gpu.hpp"
#include "tests/support/fixed_headroom.hpp"
#include "tests/support/in_child.hpp"

namespace penstock {
namespace {

using namespace std::chrono_literals;
using Environment = std::vector<std::pair<std::string, std::string>>;

// "hip-7.1" or "cuda", in a child with these variables.
std::string with_fake(const std::string& name, const Environment& environment,
                      const std::function<std::string(FakeGpu&)>& body) {
  return test::in_child([&] {
    for (const auto& [key, value] : environment) ::setenv(key.c_str(), value.c_str(), 1);
    return body(name == "cuda" ? FakeGpu::cuda() : FakeGpu::hip(name.substr(4)));
  });
}

std::string state(const std::string& name, const Environment& environment) {
  return with_fake(name, environment, [](const FakeGpu& fake) {
    const VendorReport report = fake.open().report;
    return fmt::format("{}: {}", vendor_state_name(report.state), report.detail);
  });
}

TEST(GpuStates, WithoutALibraryAVendorIsAbsent) {
  for (const auto& [vendor, library] :
       {std::pair{GpuVendor::cuda, "libcuda.so.1"}, {GpuVendor::hip, "libamdhip64.so.7"}}) {
    const std::string found = test::in_child([vendor = vendor, library = library]() -> std::string {
      if (::dlopen(library, RTLD_NOW) != nullptr) return "installed";
      return std::string(vendor_state_name(open_vendor(vendor, DriverLoading::load).report.state));
    });
    if (found == "installed") GTEST_SKIP() << "requires a machine without " << library;
    EXPECT_EQ(found, "absent");
  }
}

TEST(GpuStates, ALibraryThatCanNotBeLoadedIsBroken) {
  EXPECT_TRUE(says_missing("libcuda.so.1: cannot open shared object file: No such file or directory",
                           "libcuda.so.1"));
  // One that the library needs is missing; what is there is no library; there are no descriptors left.
  for (const char* const said :
       {"libnvidia-x.so.1: cannot open shared object file: No such file or directory",
        "/usr/lib/libcuda.so.1: file too short",
        "libcuda.so.1: cannot open shared object file: Too many open files"}) {
    EXPECT_FALSE(says_missing(said, "libcuda.so.1")) << said;
  }
}

TEST(GpuStates, TheToolkitsStubIsNoDevice) {
  EXPECT_EQ(state("cuda", {{"PENSTOCK_FAKE_STUB", "1"}}),
            "without_device: only the toolkit's stub library is installed, not a driver");
}

TEST(GpuStates, ADriverWithoutAGpuIsWithoutDevice) {
  for (const char* name : {"cuda", "hip-6.2", "hip-7.1"}) {
    EXPECT_TRUE(state(name, {{"PENSTOCK_FAKE_DEVICES", "0"}}).starts_with("without_device: ")) << name;
  }
}

TEST(GpuStates, ATooOldDriverIsBroken) {
  EXPECT_EQ(state("cuda", {{"PENSTOCK_FAKE_CUDA_VERSION", "6000"}}),
            "broken: the driver lacks cuDevicePrimaryCtxRetain");
  const std::string old = state("hip-5.2", {});
  EXPECT_TRUE(old.starts_with("broken: before ROCm 6.0")) << old;
}

TEST(GpuStates, ADriverAtOddsWithTheKernelsIsBrokenAndSaysWhatToDo) {
  const std::string found =
      with_fake("cuda", {{"PENSTOCK_FAKE_FAULTS", "cuInit:803"}}, [](const FakeGpu& fake) {
        const VendorReport report = fake.open().report;
        return fmt::format("{}: {}: {}", vendor_state_name(report.state), report.detail, report.remedy);
      });
  EXPECT_EQ(
      found,
      "broken: cuInit answered 803 (system_driver_mismatch): library and kernel driver differ: reboot, or "
      "restart the container");
}

TEST(GpuStates, ADriverThatDoesNotAnswerIsBroken) {
  for (const auto& [name, call, vendor] : {std::tuple{"cuda", "cuInit", GpuVendor::cuda},
                                           std::tuple{"hip-7.1", "hipGetDeviceCount", GpuVendor::hip}}) {
    const std::string found = with_fake(
        name, {{"PENSTOCK_FAKE_FAULTS", fmt::format("{}:hang", call)}}, [vendor = vendor](const FakeGpu&) {
          const VendorReport report = open_vendor_within(vendor, 50ms).report;
          return fmt::format("{}: {}", vendor_state_name(report.state), report.detail);
        });
    EXPECT_EQ(found, "broken: the driver did not answer within 50 ms");
  }
}

TEST(GpuStates, WithoutVmmNothingIsShared) {
  const auto expect = [](const std::string& found, const std::string& why) {
    EXPECT_TRUE(found.starts_with("usable_without_vmm: 1 GPU, sharing is off: ")) << found;
    EXPECT_NE(found.find(why), std::string::npos) << found;
  };
  expect(state("cuda", {{"PENSTOCK_FAKE_NO_VMM", "1"}}), "no virtual memory management");
  expect(state("hip-6.1", {}), "before ROCm 6.2");
  expect(state("hip-7.2", {}), "only when its address range is freed");
}

// Whole tables can be copied to it, as its other functions are there.
TEST(GpuStates, ALibraryThatLacksTheFunctionsOfVmmIsUsableWithoutIt) {
  const auto copies = [](const OpenedVendor& opened) -> std::string {
    std::string text = fmt::format("{}: {}", vendor_state_name(opened.report.state), opened.report.detail);
    std::unique_ptr<DriverContext> context;
    DeviceAddress at{};
    if (opened.gpus.empty() || !opened.gpus.front()->open_context(context).ok() ||
        !context->allocate(2 * mib, at).ok() || !context->free(at).ok()) {
      text += " and no copies";
    }
    return text;
  };
  EXPECT_EQ(
      with_fake("cuda", {{"PENSTOCK_FAKE_CUDA_VERSION", "10010"}},
                [&](const FakeGpu& fake) { return copies(fake.open()); }),
      "usable_without_vmm: 1 GPU, sharing is off: the driver lacks cuMemGetAllocationGranularity: virtual "
      "memory management came with CUDA 10.2");
  const char* build = std::getenv("PENSTOCK_BUILD_DIR");
  ASSERT_NE(build, nullptr);
  const std::string library = std::string(build) + "/fakes/hip_without_vmm/libamdhip64.so.6";
  EXPECT_EQ(test::in_child([&]() -> std::string {
              if (::dlopen(library.c_str(), RTLD_NOW) == nullptr) return ::dlerror();
              return copies(open_vendor(GpuVendor::hip, DriverLoading::load));
            }),
            "usable_without_vmm: 1 GPU, sharing is off: the runtime lacks hipMemGetAllocationGranularity");
}

TEST(GpuStates, AWorkingDriverIsUsable) {
  for (const char* name : {"cuda", "hip-6.2", "hip-7.0", "hip-7.1", "hip-7.14"}) {
    EXPECT_EQ(state(name, {{"PENSTOCK_FAKE_DEVICES", "2"}}), "usable: 2 GPUs") << name;
  }
}

TEST(GpuStates, OneBrokenGpuDoesNotTakeTheOthersAlong) {
  EXPECT_EQ(
      state("cuda", {{"PENSTOCK_FAKE_DEVICES", "2"}, {"PENSTOCK_FAKE_FAULTS", "cuDeviceGetUuid:999@1"}}),
      "usable: 1 GPU; one more does not answer: cuDeviceGetUuid answered 999 (unknown)");
}

TEST(GpuStates, AnIdNamesTheSameGpuWhateverTheOrdinals) {
  for (const auto& [name, variable] :
       {std::pair{"cuda", "CUDA_VISIBLE_DEVICES"}, {"hip-7.1", "HIP_VISIBLE_DEVICES"}}) {
    const auto ids = [name = name, variable = variable](const std::string& visible) {
      return with_fake(name, {{"PENSTOCK_FAKE_DEVICES", "2"}, {variable, visible}}, [](const FakeGpu& fake) {
        std::string text;
        for (const auto& gpu : fake.open().gpus) {
          const GpuIdentity& identity = gpu->description().identity;
          text += fmt::format("{} {} ", identity.id, to_text(identity.pci));
        }
        return text;
      });
    };
    const std::string first = ids("0"), second = ids("1");
    EXPECT_NE(first, second);
    EXPECT_EQ(ids("0,1"), first + second);
    EXPECT_EQ(ids("1,0"), second + first);
  }
}

std::string self_test(const std::string& name, const Environment& environment,
                      std::uint64_t frame_bytes = 32 * mib) {
  return with_fake(name, environment, [frame_bytes](const FakeGpu& fake) {
    SelfTestReport report;
    {
      const std::shared_ptr<GpuDriver> gpu = fake.gpu();
      report = run_self_test(*gpu, frame_bytes);
    }
    const FakeLive live = fake.live();
    if (live.handles + live.mappings + live.reserved_bytes + fake.used_bytes() != 0)
      return std::string("leaks");
    return report.passed ? std::string("passed") : report.problem;
  });
}

TEST(GpuSelfTest, PassesOnEachDriverThatCanBeUsed) {
  for (const char* name : {"cuda", "hip-6.2", "hip-7.0", "hip-7.1", "hip-7.14"}) {
    EXPECT_EQ(self_test(name, {}), "passed") << name;
    EXPECT_EQ(self_test(name, {}, 6 * mib), "passed") << name << ", frames that are no power of two";
    EXPECT_EQ(self_test(name, {{"PENSTOCK_FAKE_GIVE_BACK_MS", "20"}}), "passed") << name;
  }
}

TEST(GpuSelfTest, FindsMemoryThatOnlyItsRangeGivesBack) {
  EXPECT_EQ(self_test("hip-7.1", {{"PENSTOCK_FAKE_QUIRKS", "+keep_until_free"}}),
            "memory comes back only when its address range is freed");
}

// What the table says of a version is what the version does: sharing is on where the self-test passes, and nowhere else.
TEST(GpuSelfTest, AgreesWithTheTableOfVersions) {
  for (const char* version : {"6.2", "6.3", "6.4", "7.0", "7.1", "7.2", "7.3", "7.14"}) {
    const std::string name = std::string("hip-") + version;
    const std::string told = with_fake(name, {}, [](const FakeGpu& fake) {
      GpuDescription gpu = fake.gpu()->description();
      return gpu.has_vmm ? std::string("passed") : gpu.why_no_vmm;
    });
    const std::string found = self_test(name, {}, 2 * mib);
    if (told == "passed") {
      EXPECT_EQ(found, "passed") << name;
    } else {
      EXPECT_EQ(told, "ROCm 7.2 gives memory back only when its address range is freed") << name;
      EXPECT_EQ(found, "memory comes back only when its address range is freed") << name;
    }
  }
}

// The group of the writer is one frame (G8), so that it gives back each by itself whatever the version.
TEST(GpuSelfTest, AWriterGivesEachFrameBackWithItsOwnRange) {
  constexpr std::uint64_t frame = 2 * mib;
  const std::string found = with_fake(
      "hip-7.1", {{"PENSTOCK_FAKE_QUIRKS", "+keep_until_free"}}, [](const FakeGpu& fake) -> std::string {
        const std::shared_ptr<GpuDriver> gpu = fake.gpu();
        auto owner = GpuFrameOwner::open(gpu, {.frame_bytes = frame, .capacity_bytes = 4 * frame},
                                         std::make_shared<FixedHeadroom>());
        auto writer = GpuFrameWriter::open(gpu, {});
        if (!owner || !writer) return "not opened";
        auto device = GpuDevice::open(std::move(*owner), std::move(*writer));
        if (!device) return "not opened";
        const auto first = make_frame((*device)->owner()), second = make_frame((*device)->owner());
        if (!first || !second || fake.used_bytes() != 2 * frame) return "not made";
        (*device)->owner().destroy(*first);
        const bool given_back = eventually(
            [&] { return (*device)->writer().reached().has_value() && fake.used_bytes() == frame; });
        return given_back ? "given back" : "kept";
      });
  EXPECT_EQ(found, "given back");
}

TEST(GpuSelfTest, NamesTheStepThatFailsAndLeavesNothing) {
  for (const auto& [call, step] : std::initializer_list<std::pair<const char*, const char*>>{
           {"cuDevicePrimaryCtxRetain", "context"},
           {"cuMemGetInfo", "memory"},
           {"cuStreamCreate", "stream"},
           {"cuMemCreate", "create"},
           {"cuMemExportToShareableHandle", "export"},
           {"cuMemImportFromShareableHandle", "import"},
           {"cuMemAddressReserve", "reserve"},
           {"cuMemMap", "map"},
           {"cuMemSetAccess", "access read"},
           {"cuMemcpyDtoHAsync", "read"},
           {"cuMemcpyHtoDAsync", "write"},
           {"cuMemUnmap", "unmap"},
           {"cuMemRelease", "release import"},
           {"cuMemAddressFree", "free range"}}) {
    EXPECT_EQ(self_test("cuda", {{"PENSTOCK_FAKE_FAULTS", fmt::format("{}:801@1", call)}}),
              fmt::format("{}: {} answered 801 (not_supported)", step, call));
  }
}

TEST(GpuSelfTest, TellsAFullGpuFromABrokenOne) {
  const auto lacked_memory = [](const Environment& environment) {
    return with_fake("cuda", environment, [](const FakeGpu& fake) {
      const SelfTestReport report = run_self_test(*fake.gpu(), 32 * mib);
      return fmt::format("{} {}", report.passed, report.lacked_memory);
    });
  };
  EXPECT_EQ(lacked_memory({{"PENSTOCK_FAKE_DEVICE_BYTES", "16MiB"}}), "false true");
  EXPECT_EQ(lacked_memory({{"PENSTOCK_FAKE_FAULTS", "cuMemCreate:800"}}), "false false");
  EXPECT_EQ(lacked_memory({}), "true false");
}

TEST(GpuSelfTest, TellsWhatForbidsSharingFromWhatMayPass) {
  const auto cannot_share = [](const char* name, const Environment& environment) {
    return with_fake(name, environment, [](const FakeGpu& fake) {
      return fmt::format("{}", run_self_test(*fake.gpu(), 32 * mib).cannot_share);
    });
  };
  for (const char* call : {"MemCreate", "MemExportToShareableHandle", "MemImportFromShareableHandle",
                           "MemAddressReserve", "MemMap", "MemSetAccess"}) {
    for (const int code : {800, 801, 2, 46, 999}) {
      const char* const told = code == 800 || code == 801 ? "true" : "false";
      const std::string fault = fmt::format("{}:{}@1", call, code);
      EXPECT_EQ(cannot_share("cuda", {{"PENSTOCK_FAKE_FAULTS", "cu" + fault}}), told) << fault;
      EXPECT_EQ(cannot_share("hip-7.1", {{"PENSTOCK_FAKE_FAULTS", "hip" + fault}}), told) << fault;
    }
  }
  EXPECT_EQ(cannot_share("hip-7.1", {{"PENSTOCK_FAKE_QUIRKS", "+keep_until_free"}}), "true");
  EXPECT_EQ(cannot_share("cuda", {{"PENSTOCK_FAKE_FAULTS", "cuMemcpyHtoDAsync:801"}}), "false");
  EXPECT_EQ(cannot_share("cuda", {}), "false");
}

TEST(GpuSelfTest, ASlowOrHungDriverIsLeftBehind) {
  const std::string found = with_fake(
      "cuda", {{"PENSTOCK_FAKE_FAULTS", "cuMemMap:hang"}},
      [](const FakeGpu& fake) { return run_self_test_within(fake.gpu(), 32 * mib, 100ms).problem; });
  EXPECT_EQ(found, "the driver did not answer within 100 ms");
}

}  // namespace
}  // namespace penstock
