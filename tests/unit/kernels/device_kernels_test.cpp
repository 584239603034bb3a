// SPDX-License-Identifier: Apache-2.0
// The device code, run on the host, against the reference.
#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include "dataplane/kernels/convert.hpp"
#include "dataplane/kernels/device_code.hpp"
#include "tests/support/device_kernels_on_host.hpp"
#include "tests/support/poisoned_buffer.hpp"
#include "tests/support/random.hpp"

namespace penstock::test {
namespace {

constexpr Dtype all[] = {Dtype::f32, Dtype::f16, Dtype::bf16, Dtype::f8_e4m3, Dtype::f8_e5m2};
constexpr float scales[] = {1.0f, 0.37f, -2.0f, 3.0e38f, 1.0e-30f, 0.0f};

std::uint64_t address_of(const void* at) { return reinterpret_cast<std::uintptr_t>(at); }

std::size_t size_of(Dtype dtype) { return dtype_bits(dtype) / 8; }

ScatterPiece piece_of(std::span<const std::byte> source, Dtype from, std::span<std::byte> destination,
                      Dtype to, float scale) {
  const ElementKind stored = element_kind(from), wanted = element_kind(to);
  return ScatterPiece{.source = address_of(source.data()),
                      .destination = address_of(destination.data()),
                      .elements = source.size() / element_bytes(stored),
                      .scale = scale,
                      .stored = stored,
                      .wanted = wanted,
                      .zero = 0};
}

void scatter(const ScatterPiece& whole) {
  std::vector<ScatterPiece> pieces;
  cut_pieces(whole, pieces);
  run_scatter_on_host(pieces.data(), static_cast<std::uint32_t>(pieces.size()));
}

// Both results, of the same bytes at these shifts from an alignment of 16.
void compare(Dtype from, std::span<const std::byte> bytes, Dtype to, float scale, std::size_t source_shift,
             std::size_t destination_shift) {
  PoisonedBuffer source(bytes.size(), source_shift);
  const std::size_t size = bytes.size() / size_of(from) * size_of(to);
  PoisonedBuffer device(size, destination_shift), reference(size);
  std::ranges::copy(bytes, source.bytes().begin());
  convert(from, source.bytes(), to, reference.bytes(), scale);
  scatter(piece_of(source.bytes(), from, device.bytes(), to, scale));
  ASSERT_TRUE(device.guards_are_intact());
  const auto wrong = std::ranges::mismatch(device.bytes(), reference.bytes()).in1 - device.bytes().begin();
  ASSERT_EQ(static_cast<std::size_t>(wrong), size)
      << dtype_name(from) << " to " << dtype_name(to) << " by " << scale << ", element "
      << static_cast<std::size_t>(wrong) / size_of(to);
}

std::vector<std::byte> every_code(Dtype dtype) {
  std::vector<std::byte> bytes;
  const std::uint32_t count = 1u << dtype_bits(dtype);
  for (std::uint32_t code = 0; code < count; ++code) {
    for (std::size_t byte = 0; byte < size_of(dtype); ++byte)
      bytes.push_back(static_cast<std::byte>(code >> 8 * byte));
  }
  return bytes;
}

TEST(DeviceKernels, ConvertEveryNarrowCodeAsTheReference) {
  for (const Dtype from : all) {
    if (from == Dtype::f32) continue;
    const std::vector<std::byte> codes = every_code(from);
    for (const Dtype to : all) {
      for (const float scale : scales) compare(from, codes, to, scale, 0, 0);
    }
  }
}

TEST(DeviceKernels, ConvertFloatsOfAllKindsAsTheReference) {
  std::vector<std::uint32_t> codes = {0,          0x80000000, 1,          0x007fffff, 0x00800000,
                                      0x7f7fffff, 0x7f800000, 0xff800000, 0x7f800001, 0xffffffff,
                                      0x43e7ffff, 0x43e80000, 0x43e80001, 0x477fefff};
  // Around each border of rounding: the top sixteen bits in all their values, the rest at and beside the middles.
  for (std::uint32_t top = 0; top < 0x10000; ++top) {
    for (const std::uint32_t rest : {0x0000u, 0x0001u, 0x0fffu, 0x1000u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu})
      codes.push_back(top << 16 | rest);
  }
  Random random(11);
  for (int count = 0; count < 50'000; ++count) codes.push_back(static_cast<std::uint32_t>(random.next()));
  for (const Dtype to : all) {
    for (const float scale : {1.0f, 0.7071f, -1.0e-3f})
      compare(Dtype::f32, std::as_bytes(std::span(codes)), to, scale, 0, 0);
  }
}

TEST(DeviceKernels, ConvertAtAnyAlignmentAndCount) {
  Random random(5);
  for (const Dtype from : all) {
    for (const Dtype to : all) {
      for (std::size_t round = 0; round < 60; ++round) {
        std::vector<std::byte> bytes(random.below(round < 40 ? 40 : 3000) * size_of(from));
        for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.next());
        compare(from, bytes, to, round % 2 == 0 ? 1.0f : 0.5f, random.below(17), random.below(17));
      }
    }
  }
}

TEST(DeviceKernels, CopyBytesBetweenAnyAlignments) {
  std::vector<std::byte> bytes(1037);
  Random random(9);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.next());
  for (std::size_t from = 0; from < 17; ++from) {
    for (std::size_t to = 0; to < 17; ++to) {
      for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{3}, from + 7, bytes.size()})
        compare(Dtype::u8, std::span(bytes).first(size), Dtype::u8, 1.0f, from, to);
    }
  }
}

// What a staged extent looks like: tensors that follow each other in the file, at aligned places in the frame.
TEST(DeviceKernels, ScatterAnExtentToAlignedPlaces) {
  constexpr std::size_t alignment = 512, extent_bytes = 300'000;
  std::vector<std::byte> extent(extent_bytes), frame(2 * extent_bytes), expected(frame.size());
  Random random(21);
  for (std::byte& byte : extent) byte = static_cast<std::byte>(random.below(0x70));
  std::vector<ScatterPiece> pieces;
  std::size_t at = 3, place = 0;
  while (true) {
    const std::size_t size = 2 * random.between(1, 40'000);
    if (at + size > extent.size() || place + 2 * size > frame.size()) break;
    const bool cast = random.one_in(3);
    const Dtype from = Dtype::f16, to = cast ? Dtype::f32 : Dtype::f16;
    const auto source = std::span(extent).subspan(at, size);
    const std::size_t wanted = cast ? 2 * size : size;
    cut_pieces(piece_of(source, from, std::span(frame).subspan(place, wanted), to, 1.0f), pieces);
    convert(from, source, to, std::span(expected).subspan(place, wanted), 1.0f);
    at += size;
    place = (place + wanted + alignment - 1) / alignment * alignment;
  }
  ASSERT_GT(pieces.size(), 5u);
  run_scatter_on_host(pieces.data(), static_cast<std::uint32_t>(pieces.size()));
  EXPECT_EQ(frame, expected);
}

TEST(DeviceKernels, SumUpPagesAsTheReference) {
  Random random(2);
  std::vector<std::uint64_t> memory(1 << 17);
  for (std::uint64_t& word : memory) word = random.next();
  const auto bytes = std::as_bytes(std::span(memory));
  std::vector<ChecksumTile> tiles;
  std::vector<std::span<const std::byte>> pages;
  for (const std::size_t size : {0u, 1u, 7u, 8u, 9u, 4096u, 262'143u, 262'144u, 262'145u, 1'000'003u}) {
    pages.push_back(bytes.subspan(8 * pages.size(), size));
    cut_tiles(address_of(pages.back().data()), size, static_cast<std::uint32_t>(pages.size() - 1), tiles);
  }
  std::vector<unsigned long long> sums(pages.size());
  run_checksum_on_host(tiles.data(), sums.data(), static_cast<std::uint32_t>(tiles.size()));
  for (std::size_t page = 0; page < pages.size(); ++page)
    EXPECT_EQ(checksum_total(sums[page], pages[page].size()), checksum(pages[page])) << pages[page].size();
}

}  // namespace
}  // namespace penstock::test
