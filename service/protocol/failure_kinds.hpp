// SPDX-License-Identifier: Apache-2.0
// FailureKind as a number on the wire. The numbers of kinds are frozen by a test; new ones go to the end.
#pragma once

#include <cstdint>

#include "dataplane/base/failure.hpp"

namespace penstock::wire {

inline constexpr std::uint32_t failure_kind_count = 0
#define X(name) +1
    PENSTOCK_FAILURE_KINDS(X)
#undef X
    ;

constexpr std::uint32_t to_number(FailureKind kind) { return static_cast<std::uint32_t>(kind); }
// A kind of a newer peer reads as internal.
constexpr FailureKind to_failure_kind(std::uint32_t number) {
  return number < failure_kind_count ? static_cast<FailureKind>(number) : FailureKind::internal;
}

}  // namespace penstock::wire
