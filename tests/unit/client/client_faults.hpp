// SPDX-License-Identifier: Apache-2.0
// Injects each documented error of a part's driver calls, once at each of their first occurrences. A run plays one vendor:
// PENSTOCK_TEST_GPU.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include <dlfcn.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/fakes/documented_errors.hpp"
#include "tests/support/fake_gpu.hpp"

namespace penstock {

inline constexpr std::uint64_t occurrences_max = 3;

class ClientFaults : public testing::Test {
 protected:
  static bool is_hip() { return version() != "cuda"; }
  static std::string version() {
    const char* const name = std::getenv("PENSTOCK_TEST_GPU");
    return name == nullptr ? "cuda" : name;
  }
  static const char* name_of_call(const fake::DocumentedCall& call) {
    return is_hip() ? call.hip : call.cuda;
  }

  const FakeGpu& fake_ = is_hip() ? FakeGpu::hip(version().substr(4)) : FakeGpu::cuda();

  // Of this thread, as a program asks for it after a launch. CUDA's driver keeps none.
  static int last_error() { return is_hip() ? call("hipPeekAtLastError") : 0; }
  static void clear_last_error() {
    if (is_hip()) call("hipGetLastError");
  }
  static void* symbol(const char* name) {
    void* library = nullptr;
    for (const char* const file : {"libcuda.so.1", "libamdhip64.so.7", "libamdhip64.so.6"}) {
      if (library == nullptr) library = ::dlopen(file, RTLD_NOW | RTLD_NOLOAD);
    }
    return ::dlsym(library, name);
  }
  static int call(const char* name) { return reinterpret_cast<int (*)()>(symbol(name))(); }

  // Handles, mappings and addresses of this process, the device's used bytes, and descriptors.
  std::string left() const {
    const FakeLive live = fake_.live();
    const std::filesystem::directory_iterator all("/proc/self/fd");
    return fmt::format("{} handles, {} mappings, {} reserved, {} events, {} used, {} descriptors",
                       live.handles, live.mappings, live.reserved_bytes, live.events, fake_.used_bytes(),
                       std::distance(begin(all), end(all)));
  }
  // Runs `life` with each documented error of the calls that `part` makes.
  template <class Life, class Check>
  void inject(fake::CallParts part, const Life& life, const Check& check) {
    fake_.set_faults("");
    clear_last_error();  // Of another test, which found the GPUs.
    life();
    std::map<std::string, std::uint64_t> counts;
    for (const fake::DocumentedCall& call : fake::documented_calls) {
      const char* const name = name_of_call(call);
      if ((call.parts & part) == 0 || name == nullptr) continue;
      counts[name] = std::min(fake_.calls(name), occurrences_max);
      EXPECT_GT(counts[name], 0u) << name;
    }
    const std::string clean = left();
    for (const fake::DocumentedCall& call : fake::documented_calls) {
      const char* const name = name_of_call(call);
      if ((call.parts & part) == 0 || name == nullptr) continue;
      for (const int code : call.cuda_errors) {
        if (!fake::answers(call, is_hip(), code)) continue;
        for (std::uint64_t at = 1; at <= counts[name]; ++at) {
          const std::string plan = fmt::format("{}:{}@{}", name, code, at);
          fake_.set_faults(plan);
          const auto outcome = life();
          // How often an event is asked depends on when its stream gets there.
          EXPECT_GE(fake_.calls(name), std::string_view(name).ends_with("EventQuery") ? 1 : at) << plan;
          check(call, plan, outcome);
          ASSERT_EQ(left(), clean) << plan;
        }
      }
    }
    fake_.set_faults("");
  }
};

}  // namespace penstock
