// SPDX-License-Identifier: Apache-2.0
#include "dataplane/kernels/vector_level.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "dataplane/base/check.hpp"
#include "dataplane/kernels/convert_loops.hpp"
#include "dataplane/kernels/loops_at.hpp"

namespace penstock {
namespace {

struct Levels {
  VectorLevel there[3] = {VectorLevel::portable};
  std::size_t count = 1;
};

#if defined(__x86_64__)
// clang 14's __builtin_cpu_supports does not know this one.
bool has_f16c() {
  unsigned int eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}
#endif

Levels find_levels() {
  Levels levels;
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (avx2_loops() != nullptr && __builtin_cpu_supports("avx2") && has_f16c())
    levels.there[levels.count++] = VectorLevel::avx2;
  if (avx512_loops() != nullptr && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
    levels.there[levels.count++] = VectorLevel::avx512;
#endif
  return levels;
}

}  // namespace

std::span<const VectorLevel> vector_levels() {
  static const Levels levels = find_levels();
  return {levels.there, levels.count};
}

std::string_view vector_level_name(VectorLevel level) {
  switch (level) {
    case VectorLevel::portable: return "portable";
    case VectorLevel::avx2: return "avx2";
    case VectorLevel::avx512: return "avx512";
  }
  return "";
}

const ConvertLoops& loops_at(VectorLevel level) {
  const ConvertLoops* loops = &portable_loops();
  if (level == VectorLevel::avx2) loops = avx2_loops();
  if (level == VectorLevel::avx512) loops = avx512_loops();
  CHECK(loops != nullptr);
  return *loops;
}

}  // namespace penstock
