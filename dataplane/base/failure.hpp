// SPDX-License-Identifier: Apache-2.0
// Failure: what a person or a script is told. The kinds are one closed list; their names are the `kind` of JSON
// errors and of exceptions in Python, and never change.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "dataplane/base/result.hpp"

namespace penstock {

// clang-format off
#define PENSTOCK_FAILURE_KINDS(X)                                                                       \
  /* the file is not what its name says */                                                              \
  X(lfs_pointer) X(html) X(json_text) X(zip) X(pickle) X(gguf) X(unknown_format)                        \
  /* the file is damaged */                                                                             \
  X(empty_file) X(truncated) X(trailing_bytes) X(preallocated) X(header_too_large) X(invalid_header)    \
  X(duplicate_tensor) X(hole) X(overlap) X(overflow) X(unknown_dtype) X(misaligned_dtype)               \
  X(size_mismatch) X(invalid_metadata) X(changed_while_read) X(io_error) X(not_a_file)                  \
  /* admission and paging */                                                                            \
  X(offloaded) X(never_fits) X(foreign_usage) X(headroom) X(quota) X(pinned) X(fd_limit)                \
  X(device_unhealthy) X(revoke_timeout) X(deadline) X(exhausted) X(would_deadlock)                      \
  /* protocol and service */                                                                            \
  X(unreachable) X(protocol_mismatch) X(protocol_violation) X(closing) X(disconnected) X(forked)        \
  X(not_permitted) X(not_found) X(invalid_argument) X(busy) X(not_built) X(unsupported) X(cancelled)    \
  X(unpinned) X(configuration) X(already_running) X(internal)
// clang-format on

enum class FailureKind : std::uint8_t {
#define X(name) name,
  PENSTOCK_FAILURE_KINDS(X)
#undef X
};

constexpr std::string_view failure_kind_name(FailureKind kind) {
  switch (kind) {
#define X(name) \
  case FailureKind::name: return #name;
    PENSTOCK_FAILURE_KINDS(X)
#undef X
  }
  return "internal";
}

struct Failure {
  FailureKind kind = FailureKind::internal;
  std::string message;  // One line: what happened, with the numbers and the name that it is about.
  std::string hint;     // Likely cause and remedy; may be empty.
};

template <class T>
using Outcome =
    tl::expected<T, Failure>;  // For edges where text is wanted; the dataplane's hot paths use Result.

inline tl::unexpected<Failure> fail(FailureKind kind, std::string message, std::string hint = {}) {
  return tl::unexpected<Failure>(Failure{kind, std::move(message), std::move(hint)});
}

}  // namespace penstock
