// SPDX-License-Identifier: Apache-2.0
// The controls of the fake libamd_smi.so.
#pragma once

#include <cstdint>
#include <vector>

#include "dataplane/device/usage/amdsmi_abi.h"

namespace penstock::test {

struct FakeAmdGpu {
  std::uint64_t address = 0;
  std::uint64_t total_bytes = 0, used_bytes = 0;
  amdsmi_status_t answer = amdsmi_success;  // To questions about its memory.
};

struct FakeAmdSmi {
  std::vector<std::vector<FakeAmdGpu>> sockets;
  amdsmi_status_t init_answer = amdsmi_success;
  amdsmi_status_t sockets_answer = amdsmi_success;
  int initialised = 0;
};

}  // namespace penstock::test

// Exported by the library, as its only function that the real one lacks.
extern "C" penstock::test::FakeAmdSmi* fake_amdsmi();
