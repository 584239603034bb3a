// SPDX-License-Identifier: Apache-2.0
#include "service/control/source_places.hpp"

#include <gtest/gtest.h>

#include "dataplane/base/units.hpp"

namespace penstock {
namespace {

TEST(SourcePlaces, TheCheapestPlaceThatHoldsMostOfItCounts) {
  const auto place = [](std::uint64_t locked, std::uint64_t cached) {
    return cheapest_place(SourcePlace::disk, 8 * mib, locked, cached);
  };
  EXPECT_EQ(place(0, 0), SourcePlace::disk);
  EXPECT_EQ(place(5 * mib, 5 * mib), SourcePlace::disk);
  EXPECT_EQ(place(5 * mib, 6 * mib), SourcePlace::page_cache);
  EXPECT_EQ(place(6 * mib, 8 * mib), SourcePlace::locked_host);
  EXPECT_EQ(cheapest_place(SourcePlace::disk, 0, 0, 0), SourcePlace::disk);
}

TEST(SourcePlaces, OneOnTheEdgeDoesNotMoveToAndFro) {
  SourcePlace place = SourcePlace::disk;
  int moves = 0;
  for (int turn = 0; turn < 10; ++turn) {
    const std::uint64_t cached = turn % 2 == 0 ? 6 * mib : 5 * mib;
    const SourcePlace next = cheapest_place(place, 8 * mib, 0, cached);
    moves += next != place ? 1 : 0;
    place = next;
  }
  EXPECT_EQ(moves, 1);
  EXPECT_EQ(cheapest_place(place, 8 * mib, 0, 4 * mib - 1), SourcePlace::disk);
}

TEST(SourcePlaces, WhatAClientFillsIsAsFarAsMostOfItsMemory) {
  const auto place = [](SourcePlace now, std::uint64_t swapped, std::optional<std::uint64_t> on_disk) {
    const ProcessMemory memory{.anonymous = 100 - swapped, .swapped = swapped, .on_disk = on_disk};
    return place_in_client(now, &memory);
  };
  constexpr SourcePlace near = SourcePlace::client_memory, far = SourcePlace::client_swap;
  EXPECT_EQ(place_in_client(SourcePlace::disk, nullptr), near);
  EXPECT_EQ(place(near, 0, 0), near);
  EXPECT_EQ(place(near, 50, std::nullopt), near);
  EXPECT_EQ(place(near, 51, std::nullopt), far);
  // Compressed, but for a little.
  EXPECT_EQ(place(near, 80, 10), near);
  // One on the edge stays where it is.
  EXPECT_EQ(place(far, 26, 26), far);
  EXPECT_EQ(place(far, 25, 25), near);
  const ProcessMemory nothing{.anonymous = 0, .swapped = 0};
  EXPECT_EQ(place_in_client(far, &nothing), near);
}

}  // namespace
}  // namespace penstock
