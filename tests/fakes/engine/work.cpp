// SPDX-License-Identifier: Apache-2.0
#include "tests/fakes/engine/work.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "tests/fakes/engine/address_space.hpp"
#include "tests/fakes/engine/die.hpp"
#include "tests/fakes/engine/faults.hpp"
#include "tests/fakes/engine/host_memory.hpp"
#include "tests/fakes/engine/queued_use.hpp"

namespace penstock::fake {
namespace {

bool is_registered(const void* memory, std::uint64_t size) {
  return HostMemory::instance().is_registered(reinterpret_cast<std::uint64_t>(memory), size);
}

CudaResult write_device(int device, std::uint64_t to, const std::byte* from, std::uint64_t size) {
  const char* why = AddressSpace::instance().with_access(
      device, to, size, Access::read_write, [&](std::byte* memory) { std::memcpy(memory, from, size); });
  return why == nullptr ? cuda_success : bad_access("copy to", to, size, why);
}

CudaResult read_device(int device, std::byte* to, std::uint64_t from, std::uint64_t size) {
  const char* why = AddressSpace::instance().with_access(
      device, from, size, Access::read, [&](std::byte* memory) { std::memcpy(to, memory, size); });
  return why == nullptr ? cuda_success : bad_access("copy from", from, size, why);
}

std::shared_ptr<QueuedUse> use(const Context& context, std::uint64_t address, std::uint64_t size) {
  return std::make_shared<QueuedUse>(context, address, size);
}

// By units of what is mapped, so that a kernel's many pieces are few.
std::vector<std::shared_ptr<QueuedUse>> used_by(const Context& context, const FakeKernel& kernel,
                                                const KernelLaunch& launch) {
  const std::uint64_t unit = settings().granularity_minimum;
  std::vector<UsedRange> units;
  for (const auto& [address, size] : kernel.uses(launch)) {
    if (size == 0) continue;
    const std::uint64_t first = address / unit * unit;
    units.push_back({first, (address + size - first + unit - 1) / unit * unit});
  }
  std::sort(units.begin(), units.end(),
            [](const UsedRange& one, const UsedRange& other) { return one.address < other.address; });
  std::vector<std::shared_ptr<QueuedUse>> uses;
  for (std::size_t at = 0; at < units.size();) {
    UsedRange merged = units[at];
    for (++at; at < units.size() && units[at].address <= merged.address + merged.size; ++at)
      merged.size = std::max(merged.size, units[at].address + units[at].size - merged.address);
    uses.push_back(use(context, merged.address, merged.size));
  }
  return uses;
}

CudaResult injected(const char* kind) { return FaultPlan::instance().next(kind).code; }

}  // namespace

CudaResult bad_access(const char* what, std::uint64_t address, std::uint64_t size, const char* why) {
  if (!settings().sticky_faults) {
    die("%s %#llx, %llu bytes: %s", what, static_cast<unsigned long long>(address),
        static_cast<unsigned long long>(size), why);
  }
  std::fprintf(stderr, "fake driver: %s %#llx, %llu bytes: %s; the context is dead\n", what,
               static_cast<unsigned long long>(address), static_cast<unsigned long long>(size), why);
  return cuda_error_illegal_address;
}

CudaResult copy_in(Context& context, std::uint64_t to, const void* from, std::uint64_t size, Stream& stream) {
  if (size == 0) return cuda_success;
  if (from == nullptr) return cuda_error_invalid_value;
  const auto* bytes = static_cast<const std::byte*>(from);
  auto taken = std::make_shared<std::vector<std::byte>>();
  if (!is_registered(from, size)) taken->assign(bytes, bytes + size);
  return context.push(stream, [&context, to, bytes, size, taken, used = use(context, to, size)] {
    if (const CudaResult bad = injected("copy")) return bad;
    if (taken->empty() && !is_registered(bytes, size)) {
      return bad_access("copy from host", reinterpret_cast<std::uint64_t>(bytes), size,
                        "it is registered no more");
    }
    return write_device(context.device(), to, taken->empty() ? bytes : taken->data(), size);
  });
}

CudaResult copy_out(Context& context, void* to, std::uint64_t from, std::uint64_t size, Stream& stream) {
  if (size == 0) return cuda_success;
  if (to == nullptr) return cuda_error_invalid_value;
  auto* bytes = static_cast<std::byte*>(to);
  const bool late = is_registered(to, size);
  const CudaResult bad =
      context.push(stream, [&context, bytes, from, size, late, used = use(context, from, size)] {
        if (const CudaResult fault = injected("copy")) return fault;
        if (late && !is_registered(bytes, size)) {
          return bad_access("copy to host", reinterpret_cast<std::uint64_t>(bytes), size,
                            "it is registered no more");
        }
        return read_device(context.device(), bytes, from, size);
      });
  return bad != cuda_success || late ? bad : context.synchronize(stream);
}

CudaResult copy_within(Context& context, std::uint64_t to, std::uint64_t from, std::uint64_t size,
                       Stream& stream) {
  if (size == 0) return cuda_success;
  return context.push(
      stream, [&context, to, from, size, written = use(context, to, size), read = use(context, from, size)] {
        if (const CudaResult bad = injected("copy")) return bad;
        // In pieces, so that no lock is taken inside another.
        std::vector<std::byte> piece;
        for (std::uint64_t done = 0; done < size; done += piece.size()) {
          piece.resize(std::min<std::uint64_t>(size - done, std::uint64_t{1} << 20));
          if (const CudaResult bad = read_device(context.device(), piece.data(), from + done, piece.size()))
            return bad;
          if (const CudaResult bad = write_device(context.device(), to + done, piece.data(), piece.size()))
            return bad;
        }
        return CudaResult{cuda_success};
      });
}

CudaResult fill(Context& context, std::uint64_t to, std::uint32_t value, unsigned unit, std::uint64_t count,
                Stream& stream) {
  if (count == 0) return cuda_success;
  if (to % unit != 0) return cuda_error_invalid_value;
  return context.push(
      stream, [&context, to, value, unit, count, used = use(context, to, count * unit)]() -> CudaResult {
        if (const CudaResult bad = injected("copy")) return bad;
        const std::uint64_t size = count * unit;
        const char* why = AddressSpace::instance().with_access(
            context.device(), to, size, Access::read_write, [&](std::byte* memory) {
              if (unit == 1 || value == 0) {
                AddressSpace::fill(memory, size, static_cast<unsigned char>(value));
              } else {
                for (std::uint64_t i = 0; i < count; ++i) std::memcpy(memory + i * unit, &value, unit);
              }
            });
        return why == nullptr ? cuda_success : bad_access("fill of", to, size, why);
      });
}

CudaResult launch(Context& context, const FakeKernel& kernel, unsigned grid, unsigned block,
                  void** parameters, Stream& stream) {
  if (grid == 0 || block == 0 || block > 1024 || parameters == nullptr) return cuda_error_invalid_value;
  auto started = std::make_shared<KernelLaunch>();
  started->device = context.device();
  started->grid = grid;
  started->block = block;
  for (std::size_t i = 0; i < kernel.parameter_bytes.size(); ++i) {
    const auto* bytes = static_cast<const std::byte*>(parameters[i]);
    started->parameters.emplace_back(bytes, bytes + kernel.parameter_bytes[i]);
  }
  return context.push(stream, [&kernel, started, used = used_by(context, kernel, *started)]() -> CudaResult {
    if (const CudaResult bad = injected("kernel")) return bad;
    return kernel.run(*started);
  });
}

}  // namespace penstock::fake
