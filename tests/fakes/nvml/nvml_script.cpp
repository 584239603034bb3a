// SPDX-License-Identifier: Apache-2.0
#include "tests/fakes/nvml/nvml_script.hpp"

#include <cstdlib>
#include <fstream>
#include <sstream>

#include <dlfcn.h>

#include "tests/fakes/fake_control.h"

namespace penstock::test {
namespace {

// The driver that the program uses, if it does.
std::uint64_t counted_by_driver(int device) {
  void* const driver = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (driver == nullptr) return 0;
  const auto count = reinterpret_cast<FakeUsedBytes>(::dlsym(driver, "penstock_fake_used_bytes"));
  return count != nullptr ? count(device) : 0;
}

struct Reading {
  FakeNvml& fake;
  FakeNvmlDevice* whole = nullptr;
  FakeNvmlDevice* now = nullptr;

  void follow(const std::string& word, std::istream& values) {
    std::uint64_t number = 0;
    if (word == "hang") return;
    if (word == "init") {
      values >> fake.init_answer;
    } else if (word == "device") {
      whole = now = &fake.devices.emplace_back();
      values >> now->uuid >> now->bus >> now->total_bytes;
    } else if (word == "part") {
      whole->is_divided = true;
      now = &whole->parts.emplace_back();
      values >> now->uuid >> now->total_bytes;
    } else if (word == "used" && values >> number) {
      now->used_bytes += number;
    } else if (word == "counted" && values >> number) {
      now->used_bytes += counted_by_driver(static_cast<int>(number));
    } else if (word == "reserved") {
      values >> now->reserved_bytes;
    } else if (word == "process") {
      nvml_process process{};
      values >> process.pid >> process.used_bytes;
      now->processes[0].push_back(process);
    } else if (word == "memory") {
      values >> now->memory_answer;
      now->memory_v2_answer = now->memory_answer;
    } else if (word == "lost") {
      now->handle_answer = nvml_gpu_is_lost;
    }
  }
};

}  // namespace

void follow_script(FakeNvml& fake) {
  const char* const path = std::getenv("PENSTOCK_FAKE_NVML");
  if (path == nullptr) return;
  fake.devices.clear();
  fake.init_answer = nvml_success;
  Reading reading{.fake = fake};
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream values(line);
    std::string word;
    if (values >> word) reading.follow(word, values);
  }
}

bool script_says_hang() {
  const char* const path = std::getenv("PENSTOCK_FAKE_NVML");
  if (path == nullptr) return false;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line == "hang") return true;
  }
  return false;
}

}  // namespace penstock::test
