// SPDX-License-Identifier: Apache-2.0
// Planted errors: PLANTED(kind) is false in every build but the canary's, where the simulator has to catch
// each kind.
#pragma once

#include <cstdint>
#include <string_view>

namespace penstock {

#define PENSTOCK_PLANTED_KINDS(X)                                                                   \
  X(lost_completion)           /* a ticket that is not done is forgotten without an answer */       \
  X(double_completion)         /* a ticket that is not done is answered twice */                    \
  X(off_by_one_page)           /* the last page of a range fault is never granted */                \
  X(pinned_page_taken)         /* `busy` is taken for an acknowledgement */                         \
  X(frame_leaked)              /* the frame of a failed load is not destroyed */                    \
  X(frame_reused)              /* an evicted page's frame serves another page */                    \
  X(stale_generation_accepted) /* answers for an older generation count */                          \
  X(wrong_extent)              /* a frame is filled with the neighbouring page's bytes */           \
  X(budget_overrun)            /* one frame more than the budget */                                 \
  X(starved_ticket)            /* a ticket that can't be served waits instead of being offloaded */ \
  X(early_destroy)             /* an eviction is over at the first acknowledgement */               \
  X(generation_repeated)       /* a page that is loaded again keeps its generation */               \
  X(second_batch)              /* a batch is sent while another is unacknowledged */                \
  X(owed_is_stuck)             /* an idle client that owes an acknowledgement is stuck */           \
  X(granted_twice)             /* a page that the session has is granted again */                   \
  X(forgotten_session)         /* a closed session's mappings go on to block evictions */

enum class Planted : std::uint8_t {
#define X(name) name,
  PENSTOCK_PLANTED_KINDS(X)
#undef X
      none
};

struct PlantedKind {
  Planted kind;
  std::string_view name;
};

inline constexpr PlantedKind planted_kinds[] = {
#define X(name) {Planted::name, #name},
    PENSTOCK_PLANTED_KINDS(X)
#undef X
};

#ifdef PENSTOCK_CANARY
inline Planted planted_kind = Planted::none;  // Set by the test that looks for it.
#define PLANTED(kind) (::penstock::planted_kind == ::penstock::Planted::kind)
#else
#define PLANTED(kind) false
#endif

}  // namespace penstock
