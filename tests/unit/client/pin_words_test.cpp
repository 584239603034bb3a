// SPDX-License-Identifier: Apache-2.0
#include "service/client/pin_words.hpp"

#include <gtest/gtest.h>

namespace penstock {
namespace {

std::uint64_t mapped(std::uint32_t count) { return pstw_pin_word(PSTW_PIN_MAPPED, count); }

TEST(PinWords, APinCountsAndLeavesATouch) {
  PinWord word = mapped(1);
  EXPECT_EQ(pin_page(word), PinOutcome::done);
  EXPECT_EQ(pstw_pin_count(word), 2u);
  EXPECT_EQ((word & PSTW_PIN_TOUCH_MASK) >> PSTW_PIN_TOUCH_SHIFT, 1u);
  EXPECT_EQ(pstw_pin_state(word), std::uint32_t{PSTW_PIN_MAPPED});
}

TEST(PinWords, OnlyAMappedPageIsPinned) {
  for (const std::uint32_t state :
       {std::uint32_t{PSTW_PIN_UNMAPPED}, std::uint32_t{PSTW_PIN_REVOKING}, pin_state_moved}) {
    PinWord word = pstw_pin_word(state, 0);
    EXPECT_EQ(pin_page(word), PinOutcome::not_mapped);
    EXPECT_EQ(word, pstw_pin_word(state, 0));
  }
}

TEST(PinWords, TheCountDoesNotOverflow) {
  PinWord word = mapped(UINT32_MAX);
  EXPECT_EQ(pin_page(word), PinOutcome::full);
  EXPECT_EQ(word, mapped(UINT32_MAX));
}

TEST(PinWords, TheTouchCountWrapsWithoutTouchingItsNeighbours) {
  PinWord word = mapped(3) | PSTW_PIN_TOUCH_MASK | PSTW_PIN_WANTED;
  EXPECT_EQ(pin_page(word), PinOutcome::done);
  EXPECT_EQ(word, mapped(4) | PSTW_PIN_WANTED);
}

TEST(PinWords, TheCountDoesNotUnderflow) {
  PinWord word = mapped(0);
  EXPECT_EQ(unpin_page(word), UnpinOutcome::stray);
  EXPECT_EQ(word, mapped(0));
  word = pstw_pin_word(pin_state_moved, 0);
  EXPECT_EQ(unpin_page(word), UnpinOutcome::moved);
}

TEST(PinWords, OnlyTheLastUnpinTakesTheMark) {
  PinWord word = mapped(2);
  EXPECT_TRUE(mark_wanted(word));
  EXPECT_EQ(unpin_page(word), UnpinOutcome::done);
  EXPECT_EQ(unpin_page(word), UnpinOutcome::took_mark);
  EXPECT_EQ(word, mapped(0));
  EXPECT_FALSE(mark_wanted(word));
}

TEST(PinWords, ARevokeStartsOnlyWithoutPins) {
  PinWord word = mapped(1);
  EXPECT_FALSE(start_revoke(word));
  EXPECT_EQ(unpin_page(word), UnpinOutcome::done);
  EXPECT_TRUE(start_revoke(word));
  EXPECT_FALSE(start_revoke(word));
  EXPECT_EQ(pin_page(word), PinOutcome::not_mapped);
  set_unmapped(word);
  EXPECT_EQ(pstw_pin_state(word), std::uint32_t{PSTW_PIN_UNMAPPED});
  set_mapped(word);
  EXPECT_EQ(pin_page(word), PinOutcome::done);
}

}  // namespace
}  // namespace penstock
