// SPDX-License-Identifier: Apache-2.0
#include "tests/support/fake_gpu.hpp"

#include <cstdio>
#include <cstdlib>

#include <dlfcn.h>

#include "dataplane/base/check.hpp"

namespace penstock {
namespace {

std::string fakes_folder() {
  const char* build = std::getenv("PENSTOCK_BUILD_DIR");  // Set by ctest.
  CHECK(build != nullptr);
  return std::string(build) + "/fakes/";
}

template <class Function>
void find(void* library, Function& function, const char* symbol) {
  function = reinterpret_cast<Function>(::dlsym(library, symbol));
  CHECK(function != nullptr);
}

}  // namespace

FakeGpu::FakeGpu(GpuVendor vendor, const std::string& library) : vendor_(vendor) {
  // glibc knows a loaded library by the name that it gives itself, so that a later dlopen by that name finds this one.
  void* const handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) std::fprintf(stderr, "%s\n", ::dlerror());
  CHECK(handle != nullptr);
  find(handle, set_faults_, "penstock_fake_set_faults");
  find(handle, call_count_, "penstock_fake_call_count");
  find(handle, used_bytes_, "penstock_fake_used_bytes");
  find(handle, live_, "penstock_fake_live");
}

FakeGpu& FakeGpu::cuda() {
  static FakeGpu fake(GpuVendor::cuda, fakes_folder() + "cuda/libcuda.so.1");
  return fake;
}

FakeGpu& FakeGpu::hip(const std::string& version) {
  static const std::string loaded = version;
  CHECK(loaded == version);
  static FakeGpu fake = [&] {
    ::setenv("PENSTOCK_FAKE_HIP_VERSION", version.c_str(), 1);
    return FakeGpu(GpuVendor::hip,
                   fakes_folder() + "hip/libamdhip64.so." + (version.front() == '7' ? "7" : "6"));
  }();
  return fake;
}

OpenedVendor FakeGpu::open() const { return open_vendor(vendor_, DriverLoading::load); }

std::shared_ptr<GpuDriver> FakeGpu::gpu() const {
  const OpenedVendor opened = open();
  CHECK(!opened.gpus.empty());
  return opened.gpus.front();
}

}  // namespace penstock
