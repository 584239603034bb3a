// SPDX-License-Identifier: Apache-2.0
// A libamd_smi.so without a driver. For programs that a test only starts: $PENSTOCK_FAKE_AMDSMI is a file with lines
// "BDF TOTAL USED" (numbers; the BDF as the library packs it), read again at each count of sockets.
#include "tests/fakes/amdsmi/fake_amdsmi.hpp"

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "tests/fakes/engine/callers.hpp"

#define EXPORTED extern "C" __attribute__((visibility("default")))

namespace penstock::test {
namespace {

constexpr amdsmi_status_t invalid_argument = 1;

FakeAmdSmi& state(const char* call = __builtin_FUNCTION()) {
  static const fake::Callers callers(fake::usage_callers);
  callers.check(call);
  static FakeAmdSmi fake;
  return fake;
}

void follow_script() {
  const char* const path = std::getenv("PENSTOCK_FAKE_AMDSMI");
  if (path == nullptr) return;
  std::ifstream file(path);
  std::vector<FakeAmdGpu> gpus;
  for (FakeAmdGpu gpu; file >> gpu.address >> gpu.total_bytes >> gpu.used_bytes;) gpus.push_back(gpu);
  state().sockets = {gpus};
}

// As the real one: with a null list only the count is told.
template <class Items>
void list(Items& items, std::uint32_t* count, void** handles) {
  if (handles != nullptr) {
    for (std::size_t at = 0; at < std::min<std::size_t>(*count, items.size()); ++at) handles[at] = &items[at];
  }
  *count = static_cast<std::uint32_t>(items.size());
}

amdsmi_status_t tell(amdsmi_gpu_t gpu, int kind, std::uint64_t FakeAmdGpu::*figure, std::uint64_t* bytes) {
  if (kind != amdsmi_memory_vram) return invalid_argument;
  const auto& fake = *static_cast<const FakeAmdGpu*>(gpu);
  *bytes = fake.*figure;
  return fake.answer;
}

}  // namespace
}  // namespace penstock::test

using namespace penstock::test;

EXPORTED FakeAmdSmi* fake_amdsmi() { return &state(); }

EXPORTED amdsmi_status_t amdsmi_init(std::uint64_t flags) {
  if (flags != amdsmi_init_gpus) return invalid_argument;
  if (state().init_answer == amdsmi_success) ++state().initialised;
  return state().init_answer;
}

EXPORTED amdsmi_status_t amdsmi_shut_down() {
  --state().initialised;
  return amdsmi_success;
}

EXPORTED amdsmi_status_t amdsmi_get_socket_handles(std::uint32_t* count, amdsmi_socket_t* sockets) {
  if (sockets == nullptr) follow_script();
  list(state().sockets, count, sockets);
  return state().sockets_answer;
}

EXPORTED amdsmi_status_t amdsmi_get_processor_handles(amdsmi_socket_t socket, std::uint32_t* count,
                                                      amdsmi_gpu_t* gpus) {
  list(*static_cast<std::vector<FakeAmdGpu>*>(socket), count, gpus);
  return amdsmi_success;
}

EXPORTED amdsmi_status_t amdsmi_get_gpu_device_bdf(amdsmi_gpu_t gpu, amdsmi_address_t* address) {
  *address = static_cast<const FakeAmdGpu*>(gpu)->address;
  return amdsmi_success;
}

EXPORTED amdsmi_status_t amdsmi_get_gpu_memory_total(amdsmi_gpu_t gpu, int kind, std::uint64_t* bytes) {
  return tell(gpu, kind, &FakeAmdGpu::total_bytes, bytes);
}

EXPORTED amdsmi_status_t amdsmi_get_gpu_memory_usage(amdsmi_gpu_t gpu, int kind, std::uint64_t* bytes) {
  return tell(gpu, kind, &FakeAmdGpu::used_bytes, bytes);
}
