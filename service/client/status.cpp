// SPDX-License-Identifier: Apache-2.0
#include "service/client/status.hpp"

#include <array>
#include <cstddef>
#include <cstring>
#include <string_view>

#include <fmt/format.h>

namespace penstock {
namespace {

struct Row {
  FailureKind kind;
  pst_status status;
  std::string_view name;
};

#define ROW(kind, status) \
  Row { FailureKind::kind, status, #status }
constexpr Row rows[] = {
    ROW(lfs_pointer, PST_LFS_POINTER),
    ROW(html, PST_HTML),
    ROW(json_text, PST_JSON_TEXT),
    ROW(zip, PST_ZIP),
    ROW(pickle, PST_PICKLE),
    ROW(gguf, PST_GGUF),
    ROW(unknown_format, PST_UNKNOWN_FORMAT),
    ROW(empty_file, PST_EMPTY_FILE),
    ROW(truncated, PST_TRUNCATED),
    ROW(trailing_bytes, PST_TRAILING_BYTES),
    ROW(preallocated, PST_PREALLOCATED),
    ROW(header_too_large, PST_HEADER_TOO_LARGE),
    ROW(invalid_header, PST_INVALID_HEADER),
    ROW(duplicate_tensor, PST_DUPLICATE_TENSOR),
    ROW(hole, PST_HOLE),
    ROW(overlap, PST_OVERLAP),
    ROW(overflow, PST_OVERFLOW),
    ROW(unknown_dtype, PST_UNKNOWN_DTYPE),
    ROW(misaligned_dtype, PST_MISALIGNED_DTYPE),
    ROW(size_mismatch, PST_SIZE_MISMATCH),
    ROW(invalid_metadata, PST_INVALID_METADATA),
    ROW(changed_while_read, PST_CHANGED_WHILE_READ),
    ROW(io_error, PST_IO_ERROR),
    ROW(not_a_file, PST_NOT_A_FILE),
    ROW(offloaded, PST_OFFLOADED),
    ROW(never_fits, PST_NEVER_FITS),
    ROW(foreign_usage, PST_FOREIGN_USAGE),
    ROW(headroom, PST_HEADROOM),
    ROW(quota, PST_QUOTA),
    ROW(pinned, PST_PINNED),
    ROW(fd_limit, PST_FD_LIMIT),
    ROW(device_unhealthy, PST_DEVICE_UNHEALTHY),
    ROW(revoke_timeout, PST_REVOKE_TIMEOUT),
    ROW(deadline, PST_DEADLINE),
    ROW(exhausted, PST_EXHAUSTED),
    ROW(would_deadlock, PST_WOULD_DEADLOCK),
    ROW(unreachable, PST_UNREACHABLE),
    ROW(protocol_mismatch, PST_PROTOCOL_MISMATCH),
    ROW(protocol_violation, PST_PROTOCOL_VIOLATION),
    ROW(closing, PST_CLOSING),
    ROW(disconnected, PST_DISCONNECTED),
    ROW(forked, PST_FORKED),
    ROW(not_permitted, PST_NOT_PERMITTED),
    ROW(not_found, PST_NOT_FOUND),
    ROW(invalid_argument, PST_INVALID_ARGUMENT),
    ROW(busy, PST_BUSY),
    ROW(not_built, PST_NOT_BUILT),
    ROW(unsupported, PST_UNSUPPORTED),
    ROW(cancelled, PST_CANCELLED),
    ROW(unpinned, PST_UNPINNED),
    ROW(configuration, PST_CONFIGURATION),
    ROW(already_running, PST_ALREADY_RUNNING),
    ROW(internal, PST_INTERNAL),
};
#undef ROW

constexpr char upper(char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; }

// Row i is the kind with number i, and "some_kind" belongs to PST_SOME_KIND.
constexpr bool rows_agree() {
  for (std::size_t i = 0; i < std::size(rows); ++i) {
    const std::string_view kind = failure_kind_name(rows[i].kind);
    if (static_cast<std::size_t>(rows[i].kind) != i || rows[i].name.substr(0, 4) != "PST_") return false;
    if (rows[i].name.size() != kind.size() + 4) return false;
    for (std::size_t c = 0; c < kind.size(); ++c) {
      if (rows[i].name[c + 4] != upper(kind[c])) return false;
    }
  }
  return true;
}
#define X(name) +1
static_assert(std::size(rows) == 0 PENSTOCK_FAILURE_KINDS(X), "each kind has a number in penstock.h");
#undef X
static_assert(rows_agree());

struct LastFailure {
  const void* client = nullptr;
  Failure failure;
};
// A thread rarely uses more than one client; with more than these, the oldest text is lost.
struct LastFailures {
  std::array<LastFailure, 4> entries;
  std::size_t next = 0;

  Failure& of(const void* client) {
    for (LastFailure& entry : entries) {
      if (entry.client == client) return entry.failure;
    }
    LastFailure& entry = entries[next];
    next = (next + 1) % entries.size();
    entry = {client, {}};
    return entry.failure;
  }
};
thread_local LastFailures last_failures;

FailureKind kind_of(Errc code) {
  switch (code) {
    case Errc::not_found: return FailureKind::not_found;
    case Errc::corrupt:
    case Errc::protocol: return FailureKind::protocol_violation;
    case Errc::unsupported: return FailureKind::unsupported;
    case Errc::exhausted: return FailureKind::exhausted;
    case Errc::busy: return FailureKind::busy;
    case Errc::io: return FailureKind::io_error;
    case Errc::device: return FailureKind::device_unhealthy;
    case Errc::denied: return FailureKind::not_permitted;
    case Errc::cancelled: return FailureKind::cancelled;
    case Errc::invalid: return FailureKind::invalid_argument;
    case Errc::timeout: return FailureKind::deadline;
    case Errc::closed: return FailureKind::disconnected;
  }
  return FailureKind::internal;
}

}  // namespace

pst_status to_status(FailureKind kind) {
  const auto number = static_cast<std::size_t>(kind);
  return number < std::size(rows) ? rows[number].status : PST_INTERNAL;
}

const char* status_name(pst_status status) {
  if (status == PST_DONE) return "done";
  for (const Row& row : rows) {
    if (row.status == status) return failure_kind_name(row.kind).data();  // From a literal: it ends in NUL.
  }
  return nullptr;
}

pst_status report(const void* client, const Failure& failure) {
  last_failures.of(client) = failure;
  return to_status(failure.kind);
}

const char* last_message(const void* client) { return last_failures.of(client).message.c_str(); }
const char* last_hint(const void* client) { return last_failures.of(client).hint.c_str(); }

Failure to_failure(const Error& error, const char* what) {
  std::string message = fmt::format("{}: {}", what, error.operation);
  if (error.native != 0)
    message += fmt::format(": {}", ::strerrordesc_np(error.native) ? ::strerrordesc_np(error.native) : "?");
  return {kind_of(error.code), std::move(message), ""};
}

}  // namespace penstock
