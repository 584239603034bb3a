// SPDX-License-Identifier: Apache-2.0
// Copies, fills and launches, as they are queued and as they run.
//
// Host memory that is not registered behaves as the drivers treat it: copies from it take the bytes at the call, copies
// to it return when they are done. Registered memory is read and written late, when the stream gets to it.
#pragma once

#include <cstdint>

#include "dataplane/device/cuda/cuda_abi.h"
#include "tests/fakes/engine/context.hpp"
#include "tests/fakes/fake_kernels.hpp"

namespace penstock::fake {

CudaResult copy_in(Context& context, std::uint64_t to, const void* from, std::uint64_t size, Stream& stream);
CudaResult copy_out(Context& context, void* to, std::uint64_t from, std::uint64_t size, Stream& stream);
CudaResult copy_within(Context& context, std::uint64_t to, std::uint64_t from, std::uint64_t size,
                       Stream& stream);
// `unit` is 1 or 4 bytes of `value`.
CudaResult fill(Context& context, std::uint64_t to, std::uint32_t value, unsigned unit, std::uint64_t count,
                Stream& stream);
// Takes the parameters at the call.
CudaResult launch(Context& context, const FakeKernel& kernel, unsigned grid, unsigned block,
                  void** parameters, Stream& stream);

// What an access that the device may not make leads to: the end of the process, or of the context (700).
CudaResult bad_access(const char* what, std::uint64_t address, std::uint64_t size, const char* why);

}  // namespace penstock::fake
