// SPDX-License-Identifier: Apache-2.0
#include "service/protocol/failure_kinds.hpp"

#include <gtest/gtest.h>

#include <array>

namespace penstock {
namespace {

// What is on the wire stays: a new kind goes to the end of PENSTOCK_FAILURE_KINDS and of this list.
constexpr std::array frozen = {"lfs_pointer",
                               "html",
                               "json_text",
                               "zip",
                               "pickle",
                               "gguf",
                               "unknown_format",
                               "empty_file",
                               "truncated",
                               "trailing_bytes",
                               "preallocated",
                               "header_too_large",
                               "invalid_header",
                               "duplicate_tensor",
                               "hole",
                               "overlap",
                               "overflow",
                               "unknown_dtype",
                               "misaligned_dtype",
                               "size_mismatch",
                               "invalid_metadata",
                               "changed_while_read",
                               "io_error",
                               "not_a_file",
                               "offloaded",
                               "never_fits",
                               "foreign_usage",
                               "headroom",
                               "quota",
                               "pinned",
                               "fd_limit",
                               "device_unhealthy",
                               "revoke_timeout",
                               "deadline",
                               "exhausted",
                               "would_deadlock",
                               "unreachable",
                               "protocol_mismatch",
                               "protocol_violation",
                               "closing",
                               "disconnected",
                               "forked",
                               "not_permitted",
                               "not_found",
                               "invalid_argument",
                               "busy",
                               "not_built",
                               "unsupported",
                               "cancelled",
                               "unpinned",
                               "configuration",
                               "already_running",
                               "internal"};

TEST(FailureKinds, KeepTheirNumbersOnTheWire) {
  ASSERT_EQ(wire::failure_kind_count, frozen.size());
  for (std::uint32_t number = 0; number < frozen.size(); ++number) {
    const FailureKind kind = wire::to_failure_kind(number);
    EXPECT_EQ(failure_kind_name(kind), frozen[number]);
    EXPECT_EQ(wire::to_number(kind), number);
  }
}

TEST(FailureKinds, AnUnknownNumberIsInternal) {
  EXPECT_EQ(wire::to_failure_kind(wire::failure_kind_count), FailureKind::internal);
  EXPECT_EQ(wire::to_failure_kind(UINT32_MAX), FailureKind::internal);
}

}  // namespace
}  // namespace penstock
