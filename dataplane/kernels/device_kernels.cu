// SPDX-License-Identifier: Apache-2.0
// The device code: scatter with conversion, and checksum. nvcc, clang as a HIP compiler, and (for tests) the host's
// compiler read this one source; it includes no header but the list of its arguments. What it computes is defined in
// convert.hpp, and equals the reference there bit by bit.
//
// Conversions work on bits, in integers, so that neither flush-to-zero modes nor a processor's NaNs show; the one
// floating-point operation on a tensor's numbers is the product with the scale.
#include "dataplane/kernels/kernel_arguments.hpp"

#ifndef PENSTOCK_KERNEL  // The host's compiler gets these from who includes this file.
#if defined(__CUDACC__) && !defined(__HIP__)
#define PENSTOCK_KERNEL extern "C" __global__ __launch_bounds__(256)
#define PENSTOCK_DEVICE __device__ __forceinline__
#define PENSTOCK_GLOBAL
#define PENSTOCK_BLOCK blockIdx.x
#define PENSTOCK_THREAD threadIdx.x
#define PENSTOCK_ADD(sum, value) atomicAdd(sum, value)
#else
#define PENSTOCK_KERNEL \
  extern "C" __attribute__((global)) __attribute__((amdgpu_flat_work_group_size(256, 256)))
#define PENSTOCK_DEVICE __attribute__((device)) inline __attribute__((always_inline))
#define PENSTOCK_GLOBAL __attribute__((address_space(1)))
#define PENSTOCK_BLOCK __builtin_amdgcn_workgroup_id_x()
#define PENSTOCK_THREAD __builtin_amdgcn_workitem_id_x()
#define PENSTOCK_ADD(sum, value) __atomic_fetch_add(sum, value, __ATOMIC_RELAXED)
#endif
#endif

namespace penstock {
namespace device {

using Byte = unsigned char;
using Word = unsigned int;
using Long = unsigned long long;
static_assert(sizeof(Word) == 4 && sizeof(Long) == 8 && kernel_threads == 256, "as the kernels are written");

template <int count>
struct alignas(4 * count) Words {
  Word word[count];
};

// By way of a pointer to global memory, which the compiler of an AMD device would have to assume is any memory else.
template <class Value>
PENSTOCK_DEVICE Value load(Long address) {
  return *(const Value*)reinterpret_cast<const PENSTOCK_GLOBAL Value*>(address);
}

template <class Value>
PENSTOCK_DEVICE void store(Long address, Value value) {
  *(Value*)reinterpret_cast<PENSTOCK_GLOBAL Value*>(address) = value;
}

PENSTOCK_DEVICE Word load_bytes(Long address, Word size) {
  Word value = 0;
  for (Word byte = 0; byte < size; ++byte) value |= static_cast<Word>(load<Byte>(address + byte)) << (8 * byte);
  return value;
}

PENSTOCK_DEVICE void store_bytes(Long address, Word size, Word value) {
  for (Word byte = 0; byte < size; ++byte) store<Byte>(address + byte, static_cast<Byte>(value >> (8 * byte)));
}

// Copying.

template <class Unit>
PENSTOCK_DEVICE void copy_units(Long source, Long destination, Long bytes, Word thread) {
  const Long whole = bytes - bytes % sizeof(Unit);
  for (Long at = thread * sizeof(Unit); at < whole; at += kernel_threads * sizeof(Unit)) {
    store<Unit>(destination + at, load<Unit>(source + at));
  }
  for (Long at = whole + thread; at < bytes; at += kernel_threads) {
    store<Byte>(destination + at, load<Byte>(source + at));
  }
}

// The source is off: tensors in a file start anywhere. Words are put together on the way.
PENSTOCK_DEVICE void copy_shifted(Long source, Long destination, Long bytes, Word thread) {
  const Long whole = bytes - bytes % 4;
  for (Long at = 4 * thread; at < whole; at += 4 * kernel_threads) {
    store<Word>(destination + at, load_bytes(source + at, 4));
  }
  for (Long at = whole + thread; at < bytes; at += kernel_threads) {
    store<Byte>(destination + at, load<Byte>(source + at));
  }
}

PENSTOCK_DEVICE void copy_bytes(Long source, Long destination, Long bytes, Word thread) {
  if (((source | destination) & 15) == 0) return copy_units<Words<4>>(source, destination, bytes, thread);
  if (((source | destination) & 3) == 0) return copy_units<Word>(source, destination, bytes, thread);
  if ((destination & 3) == 0) return copy_shifted(source, destination, bytes, thread);
  copy_units<Byte>(source, destination, bytes, thread);
}

// Formats.

struct Format {
  Word size;      // Bytes an element.
  Word mantissa;  // Bits; the exponent has what is left of the element beside the sign.
  Word bias;
  Word largest;  // What overflow becomes: infinity, or the largest number of a format that has none.
  Word nan;      // The canonical one.
};

PENSTOCK_DEVICE Format format_of(ElementKind kind) {
  switch (kind) {
    case ElementKind::f16: return {2, 10, 15, 0x7c00, 0x7e00};
    case ElementKind::bf16: return {2, 7, 127, 0x7f80, 0x7fc0};
    case ElementKind::f8_e4m3: return {1, 3, 7, 0x7e, 0x7f};
    case ElementKind::f8_e5m2: return {1, 2, 15, 0x7c, 0x7e};
    default: return {4, 23, 127, 0x7f800000, 0x7fc00000};
  }
}

// The bits of the f32 that `code` stands for.
PENSTOCK_DEVICE Word widen(Word code, const Format& format) {
  const Word sign_shift = 8 * format.size - 1;
  const Word magnitude = code & ((1u << sign_shift) - 1);
  const Word sign = code >> sign_shift << 31;
  if (format.bias == 127) return code << (31 - sign_shift);
  if (magnitude > format.largest) return 0x7fc00000u;
  const bool has_infinity = (format.largest & ((1u << format.mantissa) - 1)) == 0;
  if (has_infinity && magnitude == format.largest) return sign | 0x7f800000u;
  if (magnitude >> format.mantissa == 0) {
    // A small integer times the weight of its last bit: both exact, and no subnormal f32.
    const Word weight = (127 + 1 - format.bias - format.mantissa) << 23;
    return sign | __builtin_bit_cast(Word, static_cast<float>(magnitude) * __builtin_bit_cast(float, weight));
  }
  return sign | ((magnitude << (23 - format.mantissa)) + ((127 - format.bias) << 23));
}

// To nearest, ties to even.
PENSTOCK_DEVICE Word narrow(Word bits, const Format& format) {
  const Word magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return format.nan;
  if (format.size == 4) return bits;
  const Word exponent = magnitude >> 23 == 0 ? 1 : magnitude >> 23;
  const Word significand = (magnitude & 0x7fffff) | (magnitude >> 23 == 0 ? 0 : 1u << 23);
  // The exponent of the format's smallest normal number: below it each step drops one more bit.
  const Word lowest = 127 + 1 - format.bias;
  Word dropped = 23 - format.mantissa + (exponent < lowest ? lowest - exponent : 0);
  dropped = dropped > 30 ? 30 : dropped;
  const Word odd = significand >> dropped & 1;
  const Word rounded = (significand + (1u << (dropped - 1)) - 1 + odd) >> dropped;
  // The implicit bit in `rounded`, and a carry out of it, count as one exponent more.
  Word code = rounded + (exponent > lowest ? (exponent - lowest) << format.mantissa : 0);
  code = code > format.largest ? format.largest : code;
  return bits >> 31 << (8 * format.size - 1) | code;
}

struct Conversion {
  Format stored, wanted;
  float scale;
};

PENSTOCK_DEVICE Word convert_code(Word code, const Conversion& how) {
  const Word bits = widen(code, how.stored);
  if (how.scale == 1.0f) return narrow(bits, how.wanted);
  return narrow(__builtin_bit_cast(Word, __builtin_bit_cast(float, bits) * how.scale), how.wanted);
}

// Four elements at once, where both sides are aligned to four.

PENSTOCK_DEVICE Words<4> load_four(Long address, Word size) {
  if (size == 4) return load<Words<4>>(address);
  if (size == 2) {
    const Words<2> pair = load<Words<2>>(address);
    return {{pair.word[0] & 0xffff, pair.word[0] >> 16, pair.word[1] & 0xffff, pair.word[1] >> 16}};
  }
  const Word all = load<Word>(address);
  return {{all & 0xff, all >> 8 & 0xff, all >> 16 & 0xff, all >> 24}};
}

PENSTOCK_DEVICE void store_four(Long address, Word size, const Words<4>& code) {
  const Word* word = code.word;
  if (size == 4) return store<Words<4>>(address, code);
  if (size == 2) return store<Words<2>>(address, {{word[0] | word[1] << 16, word[2] | word[3] << 16}});
  store<Word>(address, word[0] | word[1] << 8 | word[2] << 16 | word[3] << 24);
}

PENSTOCK_DEVICE void convert_elements(Long source, Long destination, Long elements, const Conversion& how,
                                      Word thread) {
  const Word stored = how.stored.size, wanted = how.wanted.size;
  Long done = 0;
  if (source % (4 * stored) == 0 && destination % (4 * wanted) == 0) {
    done = elements - elements % 4;
    for (Long at = 4 * thread; at < done; at += 4 * kernel_threads) {
      Words<4> four = load_four(source + at * stored, stored);
      for (Word& code : four.word) code = convert_code(code, how);
      store_four(destination + at * wanted, wanted, four);
    }
  }
  for (Long at = done + thread; at < elements; at += kernel_threads) {
    const Word code = load_bytes(source + at * stored, stored);
    store_bytes(destination + at * wanted, wanted, convert_code(code, how));
  }
}

PENSTOCK_DEVICE Long mix(Long x) {
  x ^= x >> 32;
  x *= 0xbf58476d1ce4e5b9ull;
  return x ^ x >> 29;
}

}  // namespace device
}  // namespace penstock

PENSTOCK_KERNEL void penstock_scatter(const penstock::ScatterPiece* pieces) {
  using namespace penstock;
  const ScatterPiece piece = pieces[PENSTOCK_BLOCK];
  const unsigned int thread = PENSTOCK_THREAD;
  const bool raw = piece.stored == ElementKind::bytes;
  if (raw || (piece.stored == piece.wanted && piece.scale == 1.0f)) {
    const unsigned int size = raw ? 1 : device::format_of(piece.stored).size;
    return device::copy_bytes(piece.source, piece.destination, piece.elements * size, thread);
  }
  const device::Conversion how = {device::format_of(piece.stored), device::format_of(piece.wanted), piece.scale};
  device::convert_elements(piece.source, piece.destination, piece.elements, how, thread);
}

PENSTOCK_KERNEL void penstock_checksum(const penstock::ChecksumTile* tiles, unsigned long long* sums) {
  using namespace penstock;
  constexpr device::Long position_factor = 0x9e3779b97f4a7c15ull;
  const ChecksumTile tile = tiles[PENSTOCK_BLOCK];
  const unsigned int thread = PENSTOCK_THREAD;
  const device::Long words = tile.bytes / 8;
  device::Long sum = 0;
  for (device::Long at = thread; at < words; at += kernel_threads) {
    const device::Long position = (tile.first_word + at + 1) * position_factor;
    sum += device::mix(device::load<device::Long>(tile.address + 8 * at) ^ position);
  }
  if (thread == 0 && tile.bytes % 8 != 0) {
    device::Long last = 0;
    for (unsigned int byte = 0; byte < tile.bytes % 8; ++byte) {
      const device::Long value = device::load<device::Byte>(tile.address + 8 * words + byte);
      last |= value << (8 * byte);
    }
    sum += device::mix(last ^ (tile.first_word + words + 1) * position_factor);
  }
  PENSTOCK_ADD(&sums[tile.sum], sum);
}
