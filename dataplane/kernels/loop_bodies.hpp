// SPDX-License-Identifier: Apache-2.0
// Included once by each convert_<level>.cpp. All static, and nothing of the library is called: a function that another
// file shares could be the copy which was compiled for newer processors than the one that runs it.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__F16C__) || defined(__AVX512F__)
#include <immintrin.h>
#endif

#include "dataplane/kernels/checksum_mix.hpp"
#include "dataplane/kernels/convert_loops.hpp"
#include "dataplane/kernels/narrow_floats.hpp"

namespace penstock {

template <class Code, class Format>
static void widen_codes(const std::byte* source, std::size_t count, float* out) {
  for (std::size_t index = 0; index < count; ++index) {
    Code code;
    __builtin_memcpy(&code, source + sizeof(Code) * index, sizeof(Code));
    out[index] = widen<Format>(code);
  }
}

static void widen_floats(const std::byte* source, std::size_t count, float* out) {
  __builtin_memcpy(out, source, 4 * count);
}

template <class Code, class Format>
static void narrow_codes(const float* values, std::size_t count, std::byte* destination) {
  for (std::size_t index = 0; index < count; ++index) {
    const Code code = static_cast<Code>(narrow<Format>(values[index]));
    __builtin_memcpy(destination + sizeof(Code) * index, &code, sizeof(Code));
  }
}

static void narrow_floats(const float* values, std::size_t count, std::byte* destination) {
  for (std::size_t index = 0; index < count; ++index) {
    std::uint32_t bits = __builtin_bit_cast(std::uint32_t, values[index]);
    bits = (bits & 0x7fffffff) > 0x7f800000 ? 0x7fc00000u : bits;
    __builtin_memcpy(destination + 4 * index, &bits, 4);
  }
}

static void multiply(float* values, std::size_t count, float scale) {
  for (std::size_t index = 0; index < count; ++index) values[index] *= scale;
}

// The instructions for f16 round and treat small numbers as the loops do, but keep payloads: where a code is made, they
// are given the canonical NaN instead of any other.
#if defined(__AVX512F__)
// Masked forms all over: gcc 12 warns of an uninitialised variable inside the others.
static constexpr __mmask16 all_lanes = 0xffff;

static void widen_halves(const std::byte* source, std::size_t count, float* out) {
  std::size_t done = 0;
  for (; done + 16 <= count; done += 16) {
    const __m256i codes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(source + 2 * done));
    _mm512_storeu_ps(out + done, _mm512_maskz_cvtph_ps(all_lanes, codes));
  }
  widen_codes<std::uint16_t, F16>(source + 2 * done, count - done, out + done);
}

static void narrow_halves(const float* values, std::size_t count, std::byte* destination) {
  const __m512 canonical = _mm512_castsi512_ps(_mm512_set1_epi32(0x7fc00000));
  std::size_t done = 0;
  for (; done + 16 <= count; done += 16) {
    const __m512 given = _mm512_loadu_ps(values + done);
    const __mmask16 is_nan = _mm512_cmp_ps_mask(given, given, _CMP_UNORD_Q);
    const __m512 clean = _mm512_mask_blend_ps(is_nan, given, canonical);
    const __m256i codes = _mm512_maskz_cvtps_ph(all_lanes, clean, _MM_FROUND_TO_NEAREST_INT);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(destination + 2 * done), codes);
  }
  narrow_codes<std::uint16_t, F16>(values + done, count - done, destination + 2 * done);
}
#elif defined(__F16C__)
static void widen_halves(const std::byte* source, std::size_t count, float* out) {
  std::size_t done = 0;
  for (; done + 8 <= count; done += 8) {
    const __m128i codes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(source + 2 * done));
    _mm256_storeu_ps(out + done, _mm256_cvtph_ps(codes));
  }
  widen_codes<std::uint16_t, F16>(source + 2 * done, count - done, out + done);
}

static void narrow_halves(const float* values, std::size_t count, std::byte* destination) {
  const __m256 canonical = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fc00000));
  std::size_t done = 0;
  for (; done + 8 <= count; done += 8) {
    const __m256 given = _mm256_loadu_ps(values + done);
    const __m256 clean = _mm256_blendv_ps(given, canonical, _mm256_cmp_ps(given, given, _CMP_UNORD_Q));
    const __m128i codes = _mm256_cvtps_ph(clean, _MM_FROUND_TO_NEAREST_INT);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(destination + 2 * done), codes);
  }
  narrow_codes<std::uint16_t, F16>(values + done, count - done, destination + 2 * done);
}
#else
static void widen_halves(const std::byte* source, std::size_t count, float* out) {
  widen_codes<std::uint16_t, F16>(source, count, out);
}

static void narrow_halves(const float* values, std::size_t count, std::byte* destination) {
  narrow_codes<std::uint16_t, F16>(values, count, destination);
}
#endif

#if defined(__AVX512BW__)
// The table lies in eight registers: an instruction finds words in two of them by six bits of a code, the other two bits
// choose among the four results.
static void look_up_halves(const std::uint16_t* table, const std::byte* source, std::size_t count,
                           std::byte* destination) {
  __m512i part[8];
  for (std::size_t at = 0; at < 8; ++at) part[at] = _mm512_loadu_si512(table + 32 * at);
  const __m512i bit_6 = _mm512_set1_epi16(0x40), bit_7 = _mm512_set1_epi16(0x80);
  std::size_t done = 0;
  for (; done + 32 <= count; done += 32) {
    const __m512i codes =
        _mm512_cvtepu8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(source + done)));
    const __mmask32 in_odd = _mm512_test_epi16_mask(codes, bit_6);
    const __mmask32 in_upper = _mm512_test_epi16_mask(codes, bit_7);
    const __m512i first = _mm512_permutex2var_epi16(part[0], codes, part[1]);
    const __m512i second = _mm512_permutex2var_epi16(part[2], codes, part[3]);
    const __m512i third = _mm512_permutex2var_epi16(part[4], codes, part[5]);
    const __m512i fourth = _mm512_permutex2var_epi16(part[6], codes, part[7]);
    const __m512i lower = _mm512_mask_blend_epi16(in_odd, first, second);
    const __m512i upper = _mm512_mask_blend_epi16(in_odd, third, fourth);
    _mm512_storeu_si512(destination + 2 * done, _mm512_mask_blend_epi16(in_upper, lower, upper));
  }
  for (; done < count; ++done)
    __builtin_memcpy(destination + 2 * done, &table[static_cast<std::uint8_t>(source[done])], 2);
}
#else
static constexpr LookUpHalves look_up_halves = nullptr;
#endif

static std::uint64_t sum_words(const std::byte* words, std::size_t count, std::uint64_t first) {
  constexpr std::size_t lanes = 16;
  std::uint64_t sums[lanes] = {};
  std::uint64_t position = first * position_factor;
  std::size_t done = 0;
  for (; done + lanes <= count; done += lanes) {
    std::uint64_t word[lanes];
    __builtin_memcpy(word, words + 8 * done, sizeof word);
    for (std::size_t lane = 0; lane < lanes; ++lane)
      sums[lane] += mix(word[lane] ^ (position + (lane + 1) * position_factor));
    position += lanes * position_factor;
  }
  std::uint64_t sum = 0;
  for (std::size_t lane = 0; lane < lanes; ++lane) sum += sums[lane];
  for (; done < count; ++done) {
    std::uint64_t word;
    __builtin_memcpy(&word, words + 8 * done, sizeof word);
    position += position_factor;
    sum += mix(word ^ position);
  }
  return sum;
}

static constexpr ConvertLoops compiled_loops = {
    .widen = {widen_floats, widen_halves, widen_codes<std::uint16_t, Bf16>, widen_codes<std::uint8_t, E4m3>,
              widen_codes<std::uint8_t, E5m2>},
    .narrow = {narrow_floats, narrow_halves, narrow_codes<std::uint16_t, Bf16>,
               narrow_codes<std::uint8_t, E4m3>, narrow_codes<std::uint8_t, E5m2>},
    .multiply = multiply,
    .look_up_halves = look_up_halves,
    .sum = sum_words};

}  // namespace penstock
