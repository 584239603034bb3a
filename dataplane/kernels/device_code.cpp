// SPDX-License-Identifier: Apache-2.0
#include "dataplane/kernels/device_code.hpp"

#include <algorithm>

#include "dataplane/base/check.hpp"
#include "dataplane/kernels/embedded_code.hpp"

namespace penstock {
namespace {

// A block moves 64 KiB: enough for its threads to have several loads under way, and small enough that a staged MiB
// gives work to sixteen blocks.
constexpr std::uint64_t piece_bytes = 64 * 1024;
// A frame of 32 MiB gives work to 128 blocks, and their threads add to one sum 32,768 times.
constexpr std::uint64_t tile_bytes = 256 * 1024;

constexpr std::uint64_t parts(std::uint64_t whole, std::uint64_t part) {
  return whole / part + (whole % part == 0 ? 0 : 1);
}

std::uint64_t piece_elements(const ScatterPiece& whole) {
  return piece_bytes / std::max(element_bytes(whole.stored), element_bytes(whole.wanted));
}

}  // namespace

std::span<const std::byte> cuda_device_code() { return embedded_cuda(); }

std::span<const std::byte> hip_device_code(std::string_view architecture) {
  const std::string_view processor = architecture.substr(0, architecture.find(':'));
  for (const EmbeddedCode& code : embedded_hip()) {
    if (code.architecture == processor) return code.image;
  }
  return {};
}

std::span<const DeviceCodeEntry> device_code_entries() { return embedded_entries(); }

ElementKind element_kind(Dtype dtype) {
  switch (dtype) {
    case Dtype::f32: return ElementKind::f32;
    case Dtype::f16: return ElementKind::f16;
    case Dtype::bf16: return ElementKind::bf16;
    case Dtype::f8_e4m3: return ElementKind::f8_e4m3;
    case Dtype::f8_e5m2: return ElementKind::f8_e5m2;
    default: return ElementKind::bytes;
  }
}

std::uint32_t element_bytes(ElementKind kind) {
  switch (kind) {
    case ElementKind::f32: return 4;
    case ElementKind::f16:
    case ElementKind::bf16: return 2;
    default: return 1;
  }
}

std::uint64_t scatter_pieces(const ScatterPiece& whole) {
  return parts(whole.elements, piece_elements(whole));
}

void cut_pieces(const ScatterPiece& whole, std::vector<ScatterPiece>& pieces) {
  CHECK((whole.stored == ElementKind::bytes) == (whole.wanted == ElementKind::bytes));
  const std::uint64_t step = piece_elements(whole);
  for (std::uint64_t at = 0; at < whole.elements; at += step) {
    ScatterPiece piece = whole;
    piece.source += at * element_bytes(whole.stored);
    piece.destination += at * element_bytes(whole.wanted);
    piece.elements = std::min<std::uint64_t>(step, whole.elements - at);
    pieces.push_back(piece);
  }
}

std::uint64_t checksum_tiles(std::uint64_t bytes) { return parts(bytes, tile_bytes); }

void cut_tiles(std::uint64_t address, std::uint64_t bytes, std::uint32_t sum,
               std::vector<ChecksumTile>& tiles) {
  CHECK(address % 8 == 0);
  for (std::uint64_t at = 0; at < bytes; at += tile_bytes) {
    tiles.push_back(ChecksumTile{.address = address + at,
                                 .bytes = std::min<std::uint64_t>(tile_bytes, bytes - at),
                                 .first_word = at / 8,
                                 .sum = sum,
                                 .zero = 0});
  }
}

}  // namespace penstock
