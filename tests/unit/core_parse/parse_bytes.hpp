// SPDX-License-Identifier: Apache-2.0
// Both steps of the parser over a whole file in memory, as each of its callers does them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "dataplane/core/checkpoint_parser.hpp"
#include "tests/support/safetensors_file.hpp"

namespace penstock::test {

inline Outcome<CheckpointIndex> parse_file(std::span<const std::byte> file) {
  auto plan = identify(file.first(std::min<std::size_t>(file.size(), identify_bytes)), file.size());
  if (!plan) return tl::unexpected(std::move(plan.error()));
  return parse_header(file.first(plan->header_bytes), file.size());
}

inline Outcome<CheckpointIndex> parse_file(std::string_view text) {
  return parse_file(std::as_bytes(std::span(text)));
}

// A file with this header and `data_bytes` of data.
inline Outcome<CheckpointIndex> parse_json(std::string_view json, std::uint64_t data_bytes) {
  return parse_file(with_header(json, data_bytes));
}

inline FailureKind kind_of(const Outcome<CheckpointIndex>& outcome) {
  return outcome ? FailureKind::internal : outcome.error().kind;
}

inline std::string message_of(const Outcome<CheckpointIndex>& outcome) {
  return outcome ? "accepted" : outcome.error().message;
}

inline constexpr std::string_view base_json = R"({"t":{"dtype":"I32","shape":[2,2],"data_offsets":[0,16]}})";

}  // namespace penstock::test
