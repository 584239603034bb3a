// SPDX-License-Identifier: Apache-2.0
#include "tests/fakes/engine/driver.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <utility>

#include "tests/fakes/engine/die.hpp"
#include "tests/fakes/engine/faults.hpp"
#include "tests/fakes/engine/ledger.hpp"

namespace penstock::fake {

ThreadState& this_thread() {
  thread_local ThreadState state;
  return state;
}

Driver& Driver::instance() {
  static Driver* const driver = new Driver;
  return *driver;
}

int Driver::device_of(int ordinal) {
  const auto& visible = settings().visible;
  return ordinal < 0 || ordinal >= static_cast<int>(visible.size())
             ? -1
             : visible[static_cast<std::size_t>(ordinal)];
}

int Driver::ordinal_of(int device) {
  const auto& visible = settings().visible;
  return static_cast<int>(std::find(visible.begin(), visible.end(), device) - visible.begin());
}

CudaResult Driver::init() {
  if (settings().visible.empty())
    return front_end.vendor == Vendor::hip ? cuda_error_invalid_device : cuda_error_no_device;
  const std::scoped_lock lock(contexts_mutex_);
  if (pid_ != 0 && pid_ != ::getpid()) return cuda_error_not_initialized;
  pid_ = ::getpid();
  return cuda_success;
}

CudaResult Driver::context_problem() {
  ThreadState& thread = this_thread();
  const bool hip = front_end.vendor == Vendor::hip;
  if (!hip && (thread.contexts.empty() || thread.contexts.back() == nullptr))
    return cuda_error_invalid_context;
  const Context& context = current();
  if (context.is_destroyed()) return cuda_error_context_is_destroyed;
  return context.code();
}

CudaResult Driver::enter(const char* name, Needs needs, CudaResult& late) {
  settings().callers.check(name);
  const Fault fault = FaultPlan::instance().next(name);
  if (fault.kind == Fault::Kind::kills_context) {
    if (front_end.vendor == Vendor::hip || !this_thread().contexts.empty()) current().kill(fault.code);
    return fault.code;
  }
  if (fault.kind == Fault::Kind::answer) return fault.code;
  if (fault.kind == Fault::Kind::late_answer) late = fault.code;
  if (settings().stub) return cuda_error_stub_library;
  if (needs == Needs::nothing) return cuda_success;
  {
    const std::scoped_lock lock(contexts_mutex_);
    if (pid_ != 0 && pid_ != ::getpid()) return cuda_error_not_initialized;
    if (pid_ == 0) {
      if (front_end.vendor == Vendor::cuda) return cuda_error_not_initialized;
      if (settings().visible.empty()) return cuda_error_no_device;
      pid_ = ::getpid();
    }
  }
  if (needs == Needs::vmm && settings().no_vmm) return cuda_error_not_supported;
  if (needs == Needs::context) return context_problem();
  return cuda_success;
}

CudaResult Driver::create_context(int device, Context** context) {
  if (settings().compute_mode == cuda_compute_mode_prohibited) return cuda_error_device_unavailable;
  FrameInfo cost{.inode = 0, .bytes = settings().context_bytes, .device = device, .handle_types = 0};
  UniqueFd held;
  if (cost.bytes != 0) {
    const std::scoped_lock lock(mutex);
    if (Ledger::instance().make(cost, held) != Ledger::Booking::made) return cuda_error_out_of_memory;
  }
  const std::scoped_lock lock(contexts_mutex_);
  *context = contexts_.emplace_back(std::make_unique<Context>(device, std::move(held))).get();
  return cuda_success;
}

CudaResult Driver::destroy_context(Context* context) {
  Context& checked = known(context, "context destroy");
  if (checked.is_destroyed()) return cuda_error_context_is_destroyed;
  checked.destroy();
  auto& contexts = this_thread().contexts;
  if (!contexts.empty() && contexts.back() == context) contexts.pop_back();
  return cuda_success;
}

std::uint64_t Driver::live_events() {
  const std::scoped_lock lock(contexts_mutex_);
  std::uint64_t all = 0;
  for (const auto& context : contexts_) all += context->live_events();
  return all;
}

CudaResult Driver::retain_primary(int device, Context** context) {
  const auto index = static_cast<std::size_t>(device);
  {
    const std::scoped_lock lock(contexts_mutex_);
    if (primary_[index] != nullptr) {
      ++primary_references_[index];
      *context = primary_[index];
      return cuda_success;
    }
  }
  Context* made = nullptr;
  if (const CudaResult bad = create_context(device, &made)) return bad;
  const std::scoped_lock lock(contexts_mutex_);
  primary_[index] = made;
  primary_references_[index] = 1;
  *context = made;
  return cuda_success;
}

CudaResult Driver::release_primary(int device) {
  const auto index = static_cast<std::size_t>(device);
  const std::scoped_lock lock(contexts_mutex_);
  if (primary_references_[index] == 0) return cuda_error_invalid_context;
  if (--primary_references_[index] > 0) return cuda_success;
  primary_[index]->destroy();
  primary_[index] = nullptr;
  return cuda_success;
}

bool Driver::primary_is_active(int device) {
  const std::scoped_lock lock(contexts_mutex_);
  return primary_[static_cast<std::size_t>(device)] != nullptr;
}

void Driver::reset_primary(int device) {
  const auto index = static_cast<std::size_t>(device);
  const std::scoped_lock lock(contexts_mutex_);
  if (primary_[index] == nullptr) return;
  primary_[index]->destroy();
  primary_[index] = nullptr;
  primary_references_[index] = 0;
}

bool Driver::is_of_ended_context(const void* event) {
  const std::scoped_lock lock(contexts_mutex_);
  return std::any_of(contexts_.begin(), contexts_.end(), [&](const std::unique_ptr<Context>& each) {
    return each->is_destroyed() && each->has_event(event);
  });
}

Context& Driver::known(const void* context, const char* call) {
  const std::scoped_lock lock(contexts_mutex_);
  const auto found =
      std::find_if(contexts_.begin(), contexts_.end(),
                   [&](const std::unique_ptr<Context>& each) { return each.get() == context; });
  if (found == contexts_.end()) die("%s: that is no context", call);
  return **found;
}

Context& Driver::current() {
  ThreadState& thread = this_thread();
  if (front_end.vendor == Vendor::cuda) return *thread.contexts.back();
  const int device = device_of(thread.ordinal);
  Context* context = nullptr;
  if (const CudaResult bad = primary_is_active(device) ? cuda_success : retain_primary(device, &context)) {
    die("the primary context can't be made: %d", bad);
  }
  const std::scoped_lock lock(contexts_mutex_);
  return *primary_[static_cast<std::size_t>(device)];
}

std::array<unsigned char, 16> uuid_of(int device) {
  std::array<unsigned char, 16> uuid{};
  if (front_end.vendor == Vendor::hip) {
    // AMD's runtime gives 16 hexadecimal digits in ASCII.
    char text[17];
    std::snprintf(text, sizeof text, "%02x4e0000a3d00000", static_cast<unsigned>(0xa0 + device));
    std::memcpy(uuid.data(), text, uuid.size());
  } else {
    constexpr unsigned char start[] = {0xfa, 0x4e, 0x00, 0x00, 0xc0, 0xda, 0x40, 0x00};
    std::copy(std::begin(start), std::end(start), uuid.begin());
    uuid[0] = static_cast<unsigned char>(0xc0 + device);  // The short names of devices must differ.
    uuid[15] = static_cast<unsigned char>(device);
  }
  return uuid;
}

std::string pci_address_of(int device) {
  char text[16];
  std::snprintf(text, sizeof text, "0000:%02x:00.0", static_cast<unsigned>(0x81 + device));
  return text;
}

}  // namespace penstock::fake
