// SPDX-License-Identifier: Apache-2.0
// The exports of fake_control.h.
#include <mutex>

#include "tests/fakes/engine/address_space.hpp"
#include "tests/fakes/engine/driver.hpp"
#include "tests/fakes/engine/faults.hpp"
#include "tests/fakes/engine/host_memory.hpp"
#include "tests/fakes/engine/ledger.hpp"
#include "tests/fakes/fake_control.h"

#define FAKE_CONTROL extern "C" __attribute__((visibility("default")))

namespace penstock::fake {

FAKE_CONTROL void penstock_fake_set_faults(const char* plan) { FaultPlan::instance().load(plan); }

FAKE_CONTROL std::uint64_t penstock_fake_call_count(const char* name) {
  return FaultPlan::instance().count(name);
}

FAKE_CONTROL std::uint64_t penstock_fake_used_bytes(int device) {
  const std::scoped_lock lock(Driver::instance().mutex);
  return Ledger::instance().used_bytes(device);
}

FAKE_CONTROL std::uint64_t penstock_fake_frames(int device) {
  const std::scoped_lock lock(Driver::instance().mutex);
  return Ledger::instance().living_frame_count(device);
}

FAKE_CONTROL void penstock_fake_live(FakeLive* live) {
  const std::scoped_lock lock(Driver::instance().mutex);
  live->handles = Driver::instance().handles.count();
  live->mappings = AddressSpace::instance().mapping_count();
  live->reserved_bytes = AddressSpace::instance().reserved_bytes();
  live->events = Driver::instance().live_events();
  live->registered_host_bytes = HostMemory::instance().registered_bytes();
}

FAKE_CONTROL void penstock_fake_read_settings() { read_settings_again(); }

}  // namespace penstock::fake
