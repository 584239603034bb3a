// SPDX-License-Identifier: Apache-2.0
#include "dataplane/io/pinned_ring.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "dataplane/base/units.hpp"

namespace penstock::test {
namespace {

PinnedRingOptions small_ring() { return {.slot_bytes = 64 * kib, .slots = 8, .reserved_huge_pages = false}; }

TEST(PinnedRing, HandsOutEachSlotOnceAndTheLastGivenBackFirst) {
  const auto ring = *PinnedRing::make(small_ring());
  std::set<SlotId> taken;
  for (int index = 0; index < 8; ++index) taken.insert(*ring->take());
  EXPECT_EQ(taken.size(), 8u);
  EXPECT_FALSE(ring->take());
  EXPECT_EQ(ring->free_slots(), 0u);
  ring->give_back(SlotId{2});
  ring->give_back(SlotId{5});
  EXPECT_EQ(*ring->take(), SlotId{5});
  EXPECT_EQ(*ring->take(), SlotId{2});
}

TEST(PinnedRing, PutsSlotsSideBySideInMemoryOfItsOwn) {
  const auto ring = *PinnedRing::make(small_ring());
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(ring->address(SlotId{0})) % huge_page_bytes, 0u);
  for (std::uint16_t slot = 0; slot < 8; ++slot) {
    std::fill_n(ring->address(SlotId{slot}), ring->slot_bytes(), static_cast<std::byte>(slot + 1));
  }
  for (std::uint16_t slot = 0; slot < 8; ++slot) {
    const std::span bytes(ring->address(SlotId{slot}), ring->slot_bytes());
    EXPECT_EQ(std::ranges::count(bytes, static_cast<std::byte>(slot + 1)), static_cast<long>(bytes.size()));
  }
}

TEST(PinnedRing, IsOnePieceWhenItIsSmall) {
  const auto ring = *PinnedRing::make(small_ring());
  ASSERT_EQ(ring->pieces().size(), 1u);
  EXPECT_EQ(ring->pieces()[0].data(), ring->address(SlotId{0}));
  EXPECT_EQ(ring->pieces()[0].size(), 8 * 64 * kib);
  EXPECT_EQ(ring->piece_of(SlotId{7}), 0);
}

TEST(PinnedRing, RefusesSizesThatCannotWork) {
  const auto kind = [](const PinnedRingOptions& options) { return PinnedRing::make(options).error().kind; };
  EXPECT_EQ(kind({.slot_bytes = 0}), FailureKind::invalid_argument);
  EXPECT_EQ(kind({.slot_bytes = 4097}), FailureKind::invalid_argument);
  EXPECT_EQ(kind({.slot_bytes = 2 * gib}), FailureKind::invalid_argument);
  EXPECT_EQ(kind({.slots = 0}), FailureKind::invalid_argument);
  EXPECT_EQ(kind({.slots = 65535}), FailureKind::invalid_argument);
}

TEST(PinnedRingDeathTest, StopsAtASlotGivenBackTwice) {
  const auto ring = *PinnedRing::make(small_ring());
  const SlotId slot = *ring->take();
  ring->give_back(slot);
  EXPECT_DEATH(ring->give_back(slot), "CHECK");
}

}  // namespace
}  // namespace penstock::test
