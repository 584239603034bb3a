// SPDX-License-Identifier: Apache-2.0
#include "dataplane/kernels/device_code.hpp"

#include <algorithm>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

namespace penstock::test {
namespace {

bool contains(std::span<const std::byte> image, std::string_view text) {
  return std::string_view(reinterpret_cast<const char*>(image.data()), image.size()).find(text) !=
         std::string_view::npos;
}

bool is_built(std::string_view architecture) {
  const auto entries = device_code_entries();
  const auto found = std::ranges::find(entries, architecture, &DeviceCodeEntry::architecture);
  return found != entries.end() && found->missing.empty();
}

TEST(DeviceCode, EveryArchitectureIsThereOrSaysWhyNot) {
  for (const std::string_view architecture : {"sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120",
                                              "gfx90a", "gfx942", "gfx1030", "gfx1100", "gfx1201"}) {
    EXPECT_EQ(std::ranges::count(device_code_entries(), architecture, &DeviceCodeEntry::architecture), 1)
        << architecture;
  }
}

TEST(DeviceCode, CarriesTheFatBinaryForNvidia) {
  if (!is_built("sm_80")) {
    EXPECT_TRUE(cuda_device_code().empty());
    GTEST_SKIP() << "requires nvcc when the project is built";
  }
  const std::span<const std::byte> image = cuda_device_code();
  ASSERT_GT(image.size(), 1000u);
  EXPECT_TRUE(contains(image, scatter_kernel));
  EXPECT_TRUE(contains(image, checksum_kernel));
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(image.data()) % 16, 0u);
}

TEST(DeviceCode, IsChosenByTheProcessorOfAnAmdDevice) {
  for (const DeviceCodeEntry& entry : device_code_entries()) {
    if (!entry.architecture.starts_with("gfx")) continue;
    const std::span<const std::byte> image = hip_device_code(entry.architecture);
    EXPECT_EQ(image.empty(), !entry.missing.empty()) << entry.architecture;
    if (image.empty()) continue;
    EXPECT_TRUE(contains(image, scatter_kernel) && contains(image, checksum_kernel)) << entry.architecture;
    EXPECT_TRUE(contains(image, entry.architecture)) << entry.architecture;
    const std::string with_features = std::string(entry.architecture) + ":sramecc+:xnack-";
    EXPECT_EQ(hip_device_code(with_features).data(), image.data());
  }
  EXPECT_TRUE(hip_device_code("gfx9").empty());
  EXPECT_TRUE(hip_device_code("").empty());
}

TEST(DeviceCode, PiecesCoverEachElementOnce) {
  for (const std::uint64_t elements : {0ull, 1ull, 16'384ull, 16'385ull, 100'000ull}) {
    const ScatterPiece whole{.source = 1000,
                             .destination = 1 << 20,
                             .elements = elements,
                             .scale = 2,
                             .stored = ElementKind::f16,
                             .wanted = ElementKind::f32,
                             .zero = 0};
    std::vector<ScatterPiece> pieces;
    cut_pieces(whole, pieces);
    EXPECT_EQ(pieces.size(), scatter_pieces(whole));
    std::uint64_t done = 0;
    for (const ScatterPiece& piece : pieces) {
      EXPECT_EQ(piece.source, whole.source + 2 * done);
      EXPECT_EQ(piece.destination, whole.destination + 4 * done);
      EXPECT_EQ(piece.scale, 2);
      EXPECT_LE(piece.elements * 4, 65'536u);
      done += piece.elements;
    }
    EXPECT_EQ(done, elements);
  }
}

TEST(DeviceCode, TilesCoverEachWordOnce) {
  for (const std::uint64_t bytes : {0ull, 5ull, 262'144ull, 1'000'001ull}) {
    std::vector<ChecksumTile> tiles;
    cut_tiles(4096, bytes, 3, tiles);
    EXPECT_EQ(tiles.size(), checksum_tiles(bytes));
    std::uint64_t done = 0;
    for (const ChecksumTile& tile : tiles) {
      EXPECT_EQ(tile.address, 4096 + done);
      EXPECT_EQ(tile.first_word * 8, done);
      EXPECT_EQ(tile.sum, 3u);
      done += tile.bytes;
    }
    EXPECT_EQ(done, bytes);
  }
}

}  // namespace
}  // namespace penstock::test
