// SPDX-License-Identifier: Apache-2.0
// The controls of the fake libnvidia-ml.so.1: what it shows, refuses, and hangs in.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "dataplane/device/usage/nvml_abi.h"

namespace penstock::test {

struct FakeNvmlDevice {
  std::string uuid;
  std::uint32_t bus = 0;
  std::uint64_t total_bytes = 0, used_bytes = 0, reserved_bytes = 0;
  nvml_return_t memory_v2_answer = nvml_success;
  nvml_return_t memory_answer = nvml_success;
  nvml_return_t handle_answer = nvml_success;
  nvml_return_t uuid_answer = nvml_success;
  // Compute, graphics, MPS.
  std::vector<nvml_process> processes[3];
  nvml_return_t process_answers[3] = {nvml_success, nvml_success, nvml_not_supported};
  bool is_divided = false;
  std::vector<FakeNvmlDevice> parts;
};

struct FakeNvml {
  std::mutex mutex;
  std::condition_variable changed;
  // Guarded by mutex; a call that is under way keeps it.
  std::vector<FakeNvmlDevice> devices;
  nvml_return_t init_answer = nvml_success;
  nvml_return_t count_answer = nvml_success;
  bool hangs = false;  // Each call waits for this to end.
  std::uint32_t hanging = 0;
  std::uint32_t initialised = 0;  // nvmlInit without nvmlShutdown.
  std::uint32_t calls = 0;
};

}  // namespace penstock::test

// Exported by the library, as its only function that the real one lacks.
extern "C" penstock::test::FakeNvml* fake_nvml();
