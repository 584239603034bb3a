// SPDX-License-Identifier: Apache-2.0
// The self-test of a GPU: one frame from its making to its end, through every call that the service and its clients will
// use, and whether its bytes come back. Costs a context and a frame for a moment; run it where that may hang or die.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dataplane/device/gpu/gpu_driver.hpp"

namespace penstock {

struct SelfTestStep {
  const char* name = "";  // "create", "export", ...; static.
  DriverCode code;
};

struct SelfTestReport {
  bool passed = false;
  bool lacked_memory = false;  // It did not come to its end because the GPU is full, and says nothing else.
  bool was_zero = false;       // The driver gave a frame that was zero. For the figures; nobody relies on it.
  bool returns_only_with_range = false;  // Its bytes came back when the address range was freed, not before.
  // The driver does not permit or support what sharing needs, or the one above: no other try will go better, and whatever
  // needs no sharing may well work.
  bool cannot_share = false;
  std::vector<SelfTestStep> steps;  // In order; the last one is the one that failed, if any did.
  DeviceMemoryFigures memory;       // At the start.
  std::string problem;              // One line; empty when passed.
};

// Blocks. What was made is given back whatever fails.
SelfTestReport run_self_test(GpuDriver& driver, std::uint64_t frame_bytes);
// On a thread of its own, which is left behind when the driver does not answer in time; `problem` then says so.
SelfTestReport run_self_test_within(std::shared_ptr<GpuDriver> driver, std::uint64_t frame_bytes,
                                    std::chrono::milliseconds limit);

}  // namespace penstock
