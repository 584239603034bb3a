// SPDX-License-Identifier: Apache-2.0
// Every promise of read_plan.hpp over thousands of seeded layouts.
#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "dataplane/base/units.hpp"
#include "dataplane/core/read_plan.hpp"
#include "tests/support/plan_check.hpp"
#include "tests/support/random.hpp"

namespace penstock::test {
namespace {

constexpr std::uint64_t page_sizes[] = {4096, 8192, 65536, 262144};

ReadLimits random_limits(Random& random) {
  ReadLimits limits;
  limits.offset_granule = 1u << (random.one_in(3) ? 0 : random.between(4, 12));
  limits.memory_granule = random.one_in(2) ? limits.offset_granule : 1u << random.below(13);
  const std::uint64_t granule = std::max<std::uint64_t>(limits.offset_granule, limits.memory_granule);
  limits.slot_bytes = std::max<std::uint64_t>(16, granule * random.between(2, 20));
  limits.read_bytes_max = granule * random.between(1, 40);
  return limits;
}

std::uint64_t random_size(Random& random) {
  switch (random.below(4)) {
    case 0: return random.below(4);
    case 1: return random.below(700);
    case 2: return random.below(9'000);
    default: return random.below(150'000);
  }
}

CheckpointIndex random_index(Random& random) {
  std::uint64_t at = random.below(5000);
  const std::uint64_t data_offset = at;
  std::vector<TensorEntry> tensors;
  for (std::uint64_t count = random.below(20); count > 0; --count) {
    const std::uint64_t bytes = random_size(random);
    tensors.push_back(
        {.name = fmt::format("t{}", count), .shape = {bytes}, .extent = {at, bytes}, .file = 0});
    at += bytes;
  }
  return CheckpointIndex("safetensors", at, data_offset, std::move(tensors), {});
}

LayoutPiece random_piece(Random& random, std::uint64_t at, std::span<const std::uint64_t> file_bytes) {
  constexpr Dtype floats[] = {Dtype::f32, Dtype::f16, Dtype::bf16, Dtype::f8_e4m3, Dtype::f8_e5m2};
  LayoutPiece piece{.file = static_cast<std::uint32_t>(random.below(file_bytes.size()))};
  if (random.one_in(2)) {
    piece.stored = floats[random.below(5)];
    piece.wanted = floats[random.below(5)];
  }
  const std::uint64_t from = dtype_bits(piece.stored) / 8, to = dtype_bits(piece.wanted) / 8;
  const std::uint64_t elements = random_size(random) / to;
  piece.table_offset = round_up(at + (random.one_in(3) ? random.below(3000) : 0), to);
  piece.source.length = elements * from;
  piece.table_bytes = elements * to;
  const std::uint64_t bytes = file_bytes[piece.file];
  if (piece.source.length > bytes) piece.source.length = piece.table_bytes = 0;
  const std::uint64_t latest = bytes - piece.source.length;
  piece.source.offset = random.one_in(8) ? latest : random.below(latest + 1);
  // Congruent offsets make direct reads into the frame possible.
  if (random.one_in(2))
    piece.source.offset = std::min(latest, round_down(piece.source.offset, 4096) + piece.table_offset % 4096);
  return piece;
}

// A plan that was cut where tier pages end keeps the promises too, and each read lies in one tier page, or says not.
void check_cut(const PageLayout& layout, std::uint32_t index, std::span<const std::uint64_t> file_bytes,
               const ReadLimits& limits, ReadPlan plan, std::uint64_t seed) {
  const std::uint64_t granule = std::max<std::uint64_t>(limits.offset_granule, limits.memory_granule);
  const std::uint64_t tier_page = round_up(limits.slot_bytes, granule) + granule;
  cut_at_tier_pages(layout, tier_page, plan);
  ASSERT_EQ(broken_promise(layout, index, file_bytes, limits, false, plan), "")
      << "seed " << seed << " page " << index << " in tier pages of " << tier_page;
  for (const PlannedRead& read : plan.reads) {
    const std::uint64_t last = read.extent.offset + read.needed_bytes - 1;
    const bool crosses = read.extent.offset / tier_page != last / tier_page;
    ASSERT_EQ(read.in_tier_page, !crosses) << "seed " << seed;
    const auto converts = [&](const LayoutPiece& piece) { return piece.stored != piece.wanted; };
    ASSERT_TRUE(!crosses || std::ranges::any_of(layout.pieces(), converts)) << "seed " << seed;
  }
}

void check_all_pages(const PageLayout& layout, std::span<const std::uint64_t> file_bytes, Random& random,
                     std::uint64_t seed) {
  ReadPlan plan;
  for (const bool addressable : {false, true}) {
    ReadLimits limits = random_limits(random);
    if (layout.page_bytes() % limits.offset_granule != 0) continue;
    for (std::uint32_t index = 0; index < layout.pages(); ++index) {
      plan.clear();
      plan_page(layout, index, file_bytes, limits, addressable, plan);
      ASSERT_EQ(broken_promise(layout, index, file_bytes, limits, addressable, plan), "")
          << "seed " << seed << " page " << index << " granules " << limits.offset_granule << " and "
          << limits.memory_granule << " slot " << limits.slot_bytes << " read " << limits.read_bytes_max
          << (addressable ? " into frames" : " through slots");
      if (!addressable) check_cut(layout, index, file_bytes, limits, plan, seed);
    }
  }
}

TEST(ReadPlanProperties, HoldForIdentityLayouts) {
  for (std::uint64_t seed = 1; seed <= 80; ++seed) {
    Random random(seed);
    const std::uint64_t bytes[] = {random_size(random)};
    check_all_pages(PageLayout::identity(bytes[0], page_sizes[random.below(4)]), bytes, random, seed);
  }
}

TEST(ReadPlanProperties, HoldForScatteredLayouts) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    Random random(seed);
    const CheckpointIndex index = random_index(random);
    const std::uint64_t bytes[] = {index.file_bytes()};
    const std::uint64_t alignment = std::uint64_t{1} << random.below(12);
    check_all_pages(PageLayout::scattered(index, alignment, page_sizes[random.below(4)]), bytes, random,
                    seed);
  }
}

TEST(ReadPlanProperties, HoldForAssembledLayouts) {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    Random random(seed);
    std::vector<std::uint64_t> bytes(random.between(1, 3));
    for (std::uint64_t& size : bytes) size = random.below(300'000);
    std::vector<LayoutPiece> pieces;
    std::uint64_t at = 0;
    for (std::uint64_t count = random.below(12); count > 0; --count) {
      pieces.push_back(random_piece(random, at, bytes));
      at = pieces.back().table_offset + pieces.back().table_bytes;
    }
    const auto layout = PageLayout::assembled(std::move(pieces), bytes, page_sizes[random.below(4)]);
    ASSERT_TRUE(layout) << layout.error().message;
    check_all_pages(*layout, bytes, random, seed);
  }
}

}  // namespace
}  // namespace penstock::test
