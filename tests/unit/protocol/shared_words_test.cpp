// SPDX-License-Identifier: Apache-2.0
#include "dataplane/pager/shared_words.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>

#include <fcntl.h>
#include <unistd.h>

#include "dataplane/base/mapping.hpp"
#include "service/protocol/session_region.h"

extern "C" std::uint64_t c_pin_word(std::uint32_t state, std::uint32_t count);
extern "C" std::uint64_t c_unpinned(std::uint64_t word);

namespace penstock {
namespace {

using Word = std::atomic<std::uint64_t>;

Word* words_of(const Mapping& mapping) { return reinterpret_cast<Word*>(mapping.data()); }

TEST(SharedWords, MeanTheSameInBothHeaders) {
  static_assert(PSTW_PIN_UNMAPPED == pin_state_unmapped && PSTW_PIN_MAPPED == pin_state_mapped);
  static_assert(PSTW_PIN_REVOKING == pin_state_revoking && PSTW_PIN_STATE_SHIFT == pin_state_shift);
  static_assert(PSTW_PIN_WANTED == pin_wanted_bit && PSTW_PIN_COUNT_MASK == pin_count_mask);
  static_assert(PSTW_ABSENT == static_cast<int>(Residency::absent));
  static_assert(PSTW_LOADING == static_cast<int>(Residency::loading));
  static_assert(PSTW_RESIDENT == static_cast<int>(Residency::resident));
  static_assert(PSTW_EVICTING == static_cast<int>(Residency::evicting));
  for (const std::uint64_t generation : {std::uint64_t{1}, std::uint64_t{77}, PSTW_GENERATION_MASK}) {
    const std::uint64_t word = make_page_word(Residency::evicting, Generation{generation});
    EXPECT_EQ(pstw_page_residency(word), std::uint32_t{PSTW_EVICTING});
    EXPECT_EQ(pstw_page_generation(word), generation);
  }
  EXPECT_EQ(c_pin_word(PSTW_PIN_MAPPED, 3), pin_state_mapped << pin_state_shift | 3);
}

TEST(PinWord, PinAndUnpinLeaveStateAndMarkAlone) {
  std::uint64_t word = pstw_pin_word(PSTW_PIN_MAPPED, 0);
  word = pstw_pinned(pstw_pinned(word)) | PSTW_PIN_WANTED;
  EXPECT_EQ(pstw_pin_state(word), std::uint32_t{PSTW_PIN_MAPPED});
  EXPECT_EQ(pstw_pin_count(word), 2u);
  word = c_unpinned(word);
  EXPECT_EQ(pstw_pin_count(word), 1u);
  EXPECT_NE(word & PSTW_PIN_WANTED, 0u);
  word = c_unpinned(word);
  EXPECT_EQ(pstw_pin_count(word), 0u);
  EXPECT_EQ(word & PSTW_PIN_WANTED, 0u) << "the last unpin takes the mark";
}

TEST(PinWord, TheTouchCountWrapsIntoItself) {
  std::uint64_t word = pstw_pin_word(PSTW_PIN_MAPPED, 5) | PSTW_PIN_TOUCH_MASK;
  word = pstw_pin_touched(word);
  EXPECT_EQ(word, pstw_pin_word(PSTW_PIN_MAPPED, 5));
}

TEST(PageWords, AreSeenByAClientThatMapsThemReadOnly) {
  const auto words = PageWords::create(1000);
  ASSERT_TRUE(words);
  EXPECT_EQ((*words)->bytes(), 8000u);
  const auto client = Mapping::shared((*words)->fd(), 8000, Access::read);
  ASSERT_TRUE(client);
  (*words)->store(999, Residency::resident, Generation{7});
  EXPECT_EQ(words_of(*client)[999].load(), make_page_word(Residency::resident, Generation{7}));
  EXPECT_EQ((*words)->load(999), make_page_word(Residency::resident, Generation{7}));
  EXPECT_EQ((*words)->load(0), 0u);
}

TEST(PageWords, CannotBeWrittenOrResizedByAClient) {
  const auto words = PageWords::create(10);
  ASSERT_TRUE(words);
  const int fd = (*words)->fd();
  EXPECT_EQ(Mapping::shared(fd, 80, Access::read_write).error().code, Errc::denied);
  auto read_only = Mapping::shared(fd, 80, Access::read);
  ASSERT_TRUE(read_only);
  EXPECT_EQ(read_only->protect(Access::read_write).error().code, Errc::denied);
  EXPECT_EQ(::pwrite(fd, "x", 1, 0), -1);
  EXPECT_EQ(::ftruncate(fd, 0), -1);
  EXPECT_EQ(::ftruncate(fd, 1 << 20), -1);
  EXPECT_EQ(::fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
  EXPECT_EQ(::fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 80), -1);
  (*words)->store(0, Residency::loading, Generation{1});
  EXPECT_EQ((*words)->load(0), make_page_word(Residency::loading, Generation{1}));
}

TEST(PinWords, ShowTheCountThatAClientWrites) {
  const auto words = PinWords::create(100);
  ASSERT_TRUE(words);
  const auto client = Mapping::shared((*words)->fd(), (*words)->bytes(), Access::read_write);
  ASSERT_TRUE(client);
  EXPECT_EQ((*words)->count(99), 0u);
  words_of(*client)[99] = pstw_pin_word(PSTW_PIN_MAPPED, 3);
  EXPECT_EQ((*words)->count(99), 3u);
}

TEST(PinWords, SurviveAnyValue) {
  const auto words = PinWords::create(1);
  ASSERT_TRUE(words);
  const auto client = Mapping::shared((*words)->fd(), (*words)->bytes(), Access::read_write);
  ASSERT_TRUE(client);
  words_of(*client)[0] = ~0ull;
  EXPECT_EQ((*words)->count(0), 0u) << "state 3 does not exist";
  words_of(*client)[0] = pstw_pin_word(PSTW_PIN_UNMAPPED, 5);
  EXPECT_EQ((*words)->count(0), 0u);
  words_of(*client)[0] = pstw_pin_word(PSTW_PIN_REVOKING, 5);
  EXPECT_EQ((*words)->count(0), 0u);
  words_of(*client)[0] = pstw_pin_word(PSTW_PIN_MAPPED, UINT32_MAX) | PSTW_PIN_WANTED | PSTW_PIN_TOUCH_MASK;
  EXPECT_EQ((*words)->count(0), UINT32_MAX);
}

TEST(PinWords, CannotBeResizedOrSealedByAClient) {
  const auto words = PinWords::create(10);
  ASSERT_TRUE(words);
  const int fd = (*words)->fd();
  EXPECT_EQ(::ftruncate(fd, 0), -1);
  EXPECT_EQ(::ftruncate(fd, 1 << 20), -1);
  EXPECT_EQ(::fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE), -1);
  EXPECT_EQ(errno, EPERM) << "another client's writable mapping must not be refused";
  EXPECT_EQ(::fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 80), 0) << "harms its owner alone";
  EXPECT_EQ((*words)->count(9), 0u);
}

TEST(SharedWords, ATableWithoutPagesHasNone) {
  EXPECT_EQ(PageWords::create(0).error().code, Errc::invalid);
  EXPECT_EQ(PinWords::create(0).error().code, Errc::invalid);
}

}  // namespace
}  // namespace penstock
