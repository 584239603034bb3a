// SPDX-License-Identifier: Apache-2.0
// The words that service and client share: layout and constants only. PROTOCOL.md has the rules of who may
// change what. Plain C11, also valid C++; the atomics are the user's. dataplane/pager/shared_words.hpp says
// the same to the dataplane, and a test compares the two.
#pragma once

#include <assert.h>
#include <stdint.h>

// Page words: one a page, written by the service, mapped read-only. A memfd of `pages` uint64_t, from byte 0.
enum pstw_residency { PSTW_ABSENT = 0, PSTW_LOADING = 1, PSTW_RESIDENT = 2, PSTW_EVICTING = 3 };
#define PSTW_RESIDENCY_SHIFT 62
#define PSTW_PAGE_SEVERAL (UINT64_C(1) << 61)  // Granted to more sessions than one.
#define PSTW_GENERATION_MASK (PSTW_PAGE_SEVERAL - 1)

static inline uint32_t pstw_page_residency(uint64_t word) { return (uint32_t)(word >> PSTW_RESIDENCY_SHIFT); }
static inline uint64_t pstw_page_generation(uint64_t word) { return word & PSTW_GENERATION_MASK; }

// Session region: one pin word a page, written by the client alone. A memfd of `pages` uint64_t, from byte 0,
// sealed in size, mapped read-write.
//   63..62 state   61 wanted   60..32 touch count (modulo 2^29)   31..0 pin count
enum pstw_pin_state { PSTW_PIN_UNMAPPED = 0, PSTW_PIN_MAPPED = 1, PSTW_PIN_REVOKING = 2 };
#define PSTW_PIN_STATE_SHIFT 62
#define PSTW_PIN_WANTED (UINT64_C(1) << 61)
#define PSTW_PIN_TOUCH_SHIFT 32
#define PSTW_PIN_TOUCH_MASK (((UINT64_C(1) << 29) - 1) << PSTW_PIN_TOUCH_SHIFT)
#define PSTW_PIN_COUNT_MASK UINT64_C(0xffffffff)

static inline uint32_t pstw_pin_state(uint64_t word) { return (uint32_t)(word >> PSTW_PIN_STATE_SHIFT); }
static inline uint32_t pstw_pin_count(uint64_t word) { return (uint32_t)(word & PSTW_PIN_COUNT_MASK); }
static inline uint64_t pstw_pin_word(uint32_t state, uint32_t count) {
  return (uint64_t)state << PSTW_PIN_STATE_SHIFT | count;
}
// Wraps without touching its neighbours.
static inline uint64_t pstw_pin_touched(uint64_t word) {
  const uint64_t touch = (word + (UINT64_C(1) << PSTW_PIN_TOUCH_SHIFT)) & PSTW_PIN_TOUCH_MASK;
  return (word & ~PSTW_PIN_TOUCH_MASK) | touch;
}
// REQUIRES: mapped, count below its mask.
static inline uint64_t pstw_pinned(uint64_t word) { return pstw_pin_touched(word) + 1; }
// REQUIRES: count above zero. The last unpin takes the wanted mark away: its caller then says `idle`.
static inline uint64_t pstw_unpinned(uint64_t word) {
  const uint64_t next = word - 1;
  return pstw_pin_count(next) == 0 ? next & ~PSTW_PIN_WANTED : next;
}

static_assert(PSTW_PIN_TOUCH_MASK == UINT64_C(0x1fffffff00000000), "touch bits");
static_assert((PSTW_PIN_TOUCH_MASK & (PSTW_PIN_WANTED | PSTW_PIN_COUNT_MASK)) == 0, "no overlap");
