// SPDX-License-Identifier: Apache-2.0
// What each fake library exports besides the driver's symbols, for tests that have loaded it (dlsym by these names).
// Each library counts for itself.
#pragma once

#include <stdint.h>
#ifdef __cplusplus
namespace penstock {
#endif

// penstock_fake_set_faults: replaces the plan of faults (engine/faults.hpp) and restarts the counts of calls.
typedef void (*FakeSetFaults)(const char* plan);
// penstock_fake_call_count: how often this process has called the symbol (without a suffix like _v2).
typedef uint64_t (*FakeCallCount)(const char* name);
// penstock_fake_used_bytes, penstock_fake_frames: of a device of the machine (not an ordinal), by all processes that
// share the ledger; memory counts while a handle, mapping or descriptor lives anywhere.
typedef uint64_t (*FakeUsedBytes)(int device);
typedef uint64_t (*FakeFrames)(int device);
// penstock_fake_live: what this process has not given back.
typedef struct FakeLive {
  uint64_t handles;
  uint64_t mappings;
  uint64_t reserved_bytes;
  uint64_t registered_host_bytes;
  uint64_t events; /* of contexts that live */
} FakeLive;
typedef void (*FakeGetLive)(FakeLive* live);
// penstock_fake_read_settings: reads the environment again. Nothing of the fake may be in use.
typedef void (*FakeReadSettings)(void);

#ifdef __cplusplus
}  // namespace penstock
#endif
