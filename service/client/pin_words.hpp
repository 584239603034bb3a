// SPDX-License-Identifier: Apache-2.0
// The changes of one pin word (PROTOCOL.md, section 5). Each is one compare-and-swap of the whole word; any thread.
#pragma once

#include <atomic>
#include <cstdint>

#include "service/protocol/session_region.h"

namespace penstock {

using PinWord = std::atomic<std::uint64_t>;
static_assert(PinWord::is_always_lock_free && sizeof(PinWord) == sizeof(std::uint64_t));

// In a region that was given up for that of a new connection: look at the new one. No service reads such a word.
inline constexpr std::uint32_t pin_state_moved = 3;

enum class PinOutcome : std::uint8_t { done, not_mapped, full };
inline PinOutcome pin_page(PinWord& word) {
  std::uint64_t seen = word.load(std::memory_order_relaxed);
  do {
    if (pstw_pin_state(seen) != PSTW_PIN_MAPPED) [[unlikely]]
      return PinOutcome::not_mapped;
    if (pstw_pin_count(seen) == PSTW_PIN_COUNT_MASK) [[unlikely]]
      return PinOutcome::full;
  } while (!word.compare_exchange_weak(seen, pstw_pinned(seen), std::memory_order_acquire,
                                       std::memory_order_relaxed));
  return PinOutcome::done;
}

enum class UnpinOutcome : std::uint8_t { done, took_mark, stray, moved };
inline UnpinOutcome unpin_page(PinWord& word) {
  std::uint64_t seen = word.load(std::memory_order_relaxed);
  std::uint64_t next;
  do {
    if (pstw_pin_count(seen) == 0) [[unlikely]] {
      return pstw_pin_state(seen) == pin_state_moved ? UnpinOutcome::moved : UnpinOutcome::stray;
    }
    next = pstw_unpinned(seen);
  } while (!word.compare_exchange_weak(seen, next, std::memory_order_release, std::memory_order_relaxed));
  return ((seen ^ next) & PSTW_PIN_WANTED) != 0 ? UnpinOutcome::took_mark : UnpinOutcome::done;
}

// mapped, 0 -> revoking. False when the page is pinned or not mapped.
inline bool start_revoke(PinWord& word) {
  std::uint64_t seen = word.load(std::memory_order_relaxed);
  do {
    if (pstw_pin_state(seen) != PSTW_PIN_MAPPED || pstw_pin_count(seen) != 0) return false;
  } while (!word.compare_exchange_weak(seen,
                                       (seen & PSTW_PIN_TOUCH_MASK) | pstw_pin_word(PSTW_PIN_REVOKING, 0),
                                       std::memory_order_acquire, std::memory_order_relaxed));
  return true;
}

// mapped, n > 0 -> the same, wanted. False when the page has no pin (any more).
inline bool mark_wanted(PinWord& word) {
  std::uint64_t seen = word.load(std::memory_order_relaxed);
  do {
    if (pstw_pin_state(seen) != PSTW_PIN_MAPPED || pstw_pin_count(seen) == 0) return false;
  } while (!word.compare_exchange_weak(seen, seen | PSTW_PIN_WANTED, std::memory_order_relaxed,
                                       std::memory_order_relaxed));
  return true;
}

// REQUIRES, all three: the caller holds the device's lock. Pins stay counted: of a page that was lost under them they are
// given up one by one, while no new one comes. What is to be `mapped` is unmapped or revoking before.
inline void set_state(PinWord& word, std::uint32_t state) {
  std::uint64_t seen = word.load(std::memory_order_relaxed);
  std::uint64_t next;
  do {
    next = (seen & (PSTW_PIN_TOUCH_MASK | PSTW_PIN_COUNT_MASK)) | pstw_pin_word(state, 0);
  } while (!word.compare_exchange_weak(seen, next, std::memory_order_release, std::memory_order_relaxed));
}
inline void set_unmapped(PinWord& word) { set_state(word, PSTW_PIN_UNMAPPED); }
inline void set_revoking(PinWord& word) { set_state(word, PSTW_PIN_REVOKING); }
inline void set_mapped(PinWord& word) { set_state(word, PSTW_PIN_MAPPED); }

// Pins whose holders are gone. Whether it had any.
inline bool drop_pins(PinWord& word) {
  const std::uint64_t before =
      word.fetch_and(~(PSTW_PIN_COUNT_MASK | PSTW_PIN_WANTED), std::memory_order_acq_rel);
  return pstw_pin_count(before) > 0;
}

}  // namespace penstock
