// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>
#include <optional>
#include <tuple>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "dataplane/base/quote.hpp"
#include "dataplane/core/safetensors.hpp"

namespace penstock {
namespace {

std::string described(const TensorEntry& tensor) {
  return fmt::format("tensor {} ({} {})", quote(tensor.name), dtype_name(tensor.dtype),
                     fmt::join(tensor.shape, "x"));
}

// Bits of the whole tensor; nothing when they do not fit. A zero anywhere makes it 0 whatever stands before it, so
// that the order of the dimensions never matters.
std::optional<std::uint64_t> tensor_bits(const TensorEntry& tensor) {
  constexpr std::uint64_t dimension_max = std::numeric_limits<std::int64_t>::max();
  if (std::ranges::any_of(tensor.shape, [](std::uint64_t size) { return size > dimension_max; }))
    return std::nullopt;
  if (std::ranges::find(tensor.shape, 0u) != tensor.shape.end()) return 0;
  std::uint64_t bits = dtype_bits(tensor.dtype);
  for (const std::uint64_t size : tensor.shape) {
    if (__builtin_mul_overflow(bits, size, &bits)) return std::nullopt;
  }
  return bits;
}

Outcome<void> check_size(const TensorEntry& tensor) {
  const auto bits = tensor_bits(tensor);
  if (!bits) return fail(FailureKind::overflow, fmt::format("{} is larger than any file", described(tensor)));
  if (*bits % 8 != 0) {
    return fail(FailureKind::misaligned_dtype,
                fmt::format("{} has {} bits, which is not whole bytes", described(tensor), *bits));
  }
  if (*bits / 8 != tensor.extent.length) {
    return fail(FailureKind::size_mismatch, fmt::format("{} needs {} bytes, its offsets give {}",
                                                        described(tensor), *bits / 8, tensor.extent.length));
  }
  return {};
}

// `covered`: where the tensors before this one end.
Outcome<void> check_place(const TensorEntry& tensor, std::uint64_t covered) {
  const std::uint64_t begin = tensor.extent.offset;
  if (begin > covered) {
    return fail(FailureKind::hole, fmt::format("bytes {} to {} of the data belong to no tensor, before {}",
                                               covered, begin, described(tensor)));
  }
  if (begin < covered) {
    return fail(FailureKind::overlap, fmt::format("{} begins at {} of the data, inside of what ends at {}",
                                                  described(tensor), begin, covered));
  }
  return {};
}

Outcome<void> check_end(std::uint64_t data_bytes, std::uint64_t data_offset, std::uint64_t file_bytes) {
  std::uint64_t needed = 0;
  if (__builtin_add_overflow(data_bytes, data_offset, &needed)) {
    return fail(FailureKind::overflow, fmt::format("the data would end after byte {}", UINT64_MAX));
  }
  if (needed > file_bytes) {
    return fail(FailureKind::truncated,
                fmt::format("data is cut: needs {} bytes, has {}, {} missing", needed, file_bytes,
                            needed - file_bytes),
                "the download was cut, or is still running: download it again");
  }
  if (needed < file_bytes) {
    return fail(FailureKind::trailing_bytes,
                fmt::format("{} extra bytes after offset {}: the file has {}", file_bytes - needed, needed,
                            file_bytes),
                "something was appended, or a shorter file was written over a longer one");
  }
  return {};
}

}  // namespace

Outcome<void> place_tensors(std::vector<TensorEntry>& tensors, std::uint64_t data_offset,
                            std::uint64_t file_bytes) {
  // Stable, so that empty tensors at one offset keep the order of the header.
  std::ranges::stable_sort(tensors, {}, [](const TensorEntry& tensor) {
    return std::tuple(tensor.extent.offset, tensor.extent.length);
  });
  std::uint64_t covered = 0;
  for (const TensorEntry& tensor : tensors) {
    if (auto placed = check_place(tensor, covered); !placed) return placed;
    if (auto sized = check_size(tensor); !sized) return sized;
    covered = tensor.extent.end();
  }
  if (auto ended = check_end(covered, data_offset, file_bytes); !ended) return ended;
  for (TensorEntry& tensor : tensors) tensor.extent.offset += data_offset;
  return {};
}

}  // namespace penstock
