// SPDX-License-Identifier: Apache-2.0
// The state of the driver in this process: whether it was initialised, contexts, the current one of each thread,
// handles; and the gate that each exported function passes first.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "dataplane/device/cuda/cuda_abi.h"
#include "tests/fakes/engine/allocation.hpp"
#include "tests/fakes/engine/context.hpp"
#include "tests/fakes/engine/settings.hpp"

namespace penstock::fake {

enum class Needs : std::uint8_t { nothing, init, vmm, context };

class Driver {
 public:
  static Driver& instance();

  // 0, or what the exported function must return at once: injected faults, the stub's answer, a call before init or in
  // a forked child, no or a dead current context. Also counts the call.
  // `late`: what it returns instead of its own answer, once it has done what it does.
  CudaResult enter(const char* name, Needs needs, CudaResult& late);
  // The whole of an exported function.
  template <class Body>
  CudaResult call(const char* name, Needs needs, const Body& body) {
    CudaResult late = cuda_success;
    if (const CudaResult bad = enter(name, needs, late)) return bad;
    const CudaResult result = body();
    return late != cuda_success ? late : result;
  }
  CudaResult init();

  // Device of the machine for an ordinal, or -1.
  static int device_of(int ordinal);
  static int ordinal_of(int device);

  CudaResult create_context(int device, Context** context);
  CudaResult destroy_context(Context* context);
  CudaResult retain_primary(int device, Context** context);
  CudaResult release_primary(int device);
  bool primary_is_active(int device);
  // As a reset of the device does: it ends, whoever holds it, and the next one that needs it makes another.
  void reset_primary(int device);
  // The event was one of a context that was destroyed, whose things the drivers know to be gone.
  bool is_of_ended_context(const void* event);
  // Dies of a pointer that is no context.
  Context& known(const void* context, const char* call);
  // HIP: the primary context of the thread's current device, made when it is first needed.
  Context& current();
  std::uint64_t live_events();

  std::mutex mutex;  // Guards `handles`, and orders calls as the drivers' own lock does.
  Handles handles;

 private:
  CudaResult context_problem();

  std::mutex contexts_mutex_;
  std::vector<std::unique_ptr<Context>> contexts_;
  std::array<Context*, max_devices> primary_{};
  std::array<int, max_devices> primary_references_{};
  int pid_ = 0;  // Of the process that initialised it.
};

// The calling thread's contexts, the current one last (CUDA), and its current ordinal (HIP).
struct ThreadState {
  std::vector<Context*> contexts;
  int ordinal = 0;
  int last_error = 0;  // HIP's, as hipGetLastError gives it.
};
ThreadState& this_thread();

// The identity of a device of the machine.
std::array<unsigned char, 16> uuid_of(int device);
std::string pci_address_of(int device);

}  // namespace penstock::fake
