// SPDX-License-Identifier: Apache-2.0
// What the environment asks of the fake machine; read once, at the first call. DESIGN.md lists the variables.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/fakes/engine/callers.hpp"

namespace penstock::fake {

enum class Vendor : std::uint8_t { cuda, hip };

// Set by each of the two libraries.
struct FrontEnd {
  Vendor vendor;
  const char* name;     // In messages and in the names of frames.
  int default_version;  // As the runtime's version call gives it.
};
extern const FrontEnd front_end;

// How versions of HIP differ from the rules of CUDA. All false for CUDA.
struct Quirks {
  bool old_layout = false;     // 5.2: allocation properties in another order.
  bool no_sharing = false;     // Below 6.2: no export, no import, no read-only access.
  bool fd_by_pointer = false;  // Below 7.1: import takes a pointer to the descriptor.
  bool unprotected_unmap =
      false;  // After unmap the range is open to stray accesses until the caller protects it.
  bool keep_until_free = false;  // 7.2 alone: memory goes back only when the address range is freed.
  bool deferred_import = false;  // 7.x: the descriptor must stay open until access is set; export works once.
  bool current_device = false;   // 7.x: creates on the current device, whatever the properties say.
  bool coarse_access = false;    // Access only in multiples of the recommended granularity.
  bool unmaps_one = false;       // Below 7.0: an unmap is of one mapping, whole.
  bool dies_on_unknown_address = false;  // Old runtimes follow a null pointer.
  bool keeps_last_failure = false;       // 7.x: later successes leave the thread's last error alone.
};

struct Settings {
  int version = 0;
  int devices = 1;           // Of the machine.
  std::vector<int> visible;  // Ordinal -> device of the machine.
  std::uint64_t device_bytes = std::uint64_t{8} << 30;
  std::string ledger;
  std::uint64_t granularity_minimum = 0;
  std::uint64_t granularity_recommended = 0;
  std::uint64_t context_bytes = 0;
  std::uint32_t stream_delay_us = 100;
  std::uint32_t give_back_ms = 0;
  int compute_mode = 0;
  bool stub = false;
  bool no_vmm = false;
  bool integrated = false;
  bool poison = true;
  bool sticky_faults = false;  // A bad access kills the context (700), as on a GPU; otherwise the process.
  bool no_binary = false;
  Quirks quirks;
  Callers callers;
};
const Settings& settings();
// For programs that set the environment after they have loaded the fake: the next call reads it again.
// REQUIRES: nothing of the fake is in use.
void read_settings_again();

inline constexpr int max_devices = 8;

}  // namespace penstock::fake
