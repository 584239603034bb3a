// SPDX-License-Identifier: Apache-2.0
#include "dataplane/core/checkpoint_parser.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "dataplane/base/check.hpp"
#include "dataplane/base/units.hpp"
#include "dataplane/core/foreign_format.hpp"
#include "dataplane/core/safetensors.hpp"

namespace penstock {
namespace {

constexpr std::uint64_t length_bytes = 8;  // The header's length: an unsigned little-endian integer.

std::uint64_t header_length(std::span<const std::byte> prefix) {
  std::uint64_t value = 0;
  for (std::size_t index = 0; index < length_bytes; ++index) {
    value |= static_cast<std::uint64_t>(prefix[index]) << (8 * index);
  }
  return value;
}

// A believable length and then the start of a JSON object. Decides against formats whose magic could also be a
// length: `80 02 00 ...` is a pickle of protocol 2 and a header of 640 bytes.
bool starts_like_safetensors(std::span<const std::byte> prefix) {
  if (prefix.size() < length_bytes || header_length(prefix) > header_bytes_max) return false;
  if (prefix.size() == length_bytes) return true;
  constexpr std::string_view starts = "{ \t\r\n";
  return starts.find(static_cast<char>(prefix[length_bytes])) != std::string_view::npos;
}

Failure never_filled(std::span<const std::byte> prefix, std::uint64_t file_bytes) {
  const bool all_zero = std::ranges::all_of(prefix, [](std::byte byte) { return byte == std::byte{0}; });
  const std::string_view guess =
      all_zero ? "file looks preallocated and never filled" : "the start of the file looks never written";
  return Failure{FailureKind::preallocated, fmt::format("header length 0, {} ({} bytes)", guess, file_bytes),
                 "the download did not finish: download it again"};
}

}  // namespace

Outcome<HeaderPlan> identify(std::span<const std::byte> prefix, std::uint64_t file_bytes) {
  CHECK(prefix.size() >= std::min(file_bytes, identify_bytes));
  prefix = prefix.first(std::min(file_bytes, identify_bytes));
  if (file_bytes == 0) {
    return fail(FailureKind::empty_file, "is empty: 0 bytes, too short for the length field of 8 bytes",
                "the download did not start, or failed: download it again");
  }
  if (!starts_like_safetensors(prefix)) {
    if (auto failure = recognize_foreign_format(prefix, file_bytes))
      return tl::unexpected(*std::move(failure));
  }
  if (file_bytes < length_bytes) {
    return fail(FailureKind::truncated,
                fmt::format("too short for the length field: needs {} bytes, has {}, {} missing",
                            length_bytes, file_bytes, length_bytes - file_bytes),
                "the download was cut: download it again");
  }
  const std::uint64_t length = header_length(prefix);
  if (length == 0) return tl::unexpected(never_filled(prefix, file_bytes));
  if (length > header_bytes_max) {
    return fail(FailureKind::header_too_large,
                fmt::format("header length {} is above the limit of {} bytes", length, header_bytes_max),
                "this is no safetensors file, or its first bytes are damaged");
  }
  const std::uint64_t needed = length_bytes + length;
  if (needed > file_bytes) {
    return fail(FailureKind::truncated,
                fmt::format("header is cut: needs {} bytes, has {}, {} missing", needed, file_bytes,
                            needed - file_bytes),
                "the download was cut: download it again");
  }
  if (file_bytes > file_bytes_max) {
    return fail(FailureKind::unsupported,
                fmt::format("has {} bytes, at most {} ({}) are supported", file_bytes, file_bytes_max,
                            format_bytes(file_bytes_max)));
  }
  return HeaderPlan{.header_bytes = needed};
}

Outcome<CheckpointIndex> parse_header(std::span<const std::byte> header, std::uint64_t file_bytes) {
  CHECK(header.size() >= length_bytes && header.size() <= file_bytes && file_bytes <= file_bytes_max);
  if (header_length(header) != header.size() - length_bytes) {
    return fail(FailureKind::changed_while_read,
                fmt::format("header length was {} and is {} now", header.size() - length_bytes,
                            header_length(header)),
                "another program writes this file: wait until it is done");
  }
  const std::span<const std::byte> text = header.subspan(length_bytes);
  auto index =
      parse_safetensors({reinterpret_cast<const char*>(text.data()), text.size()}, header.size(), file_bytes);
  if (!index && index.error().kind == FailureKind::invalid_header) {
    // A believable length followed by no header at all: then the magic number is what the file is known by.
    const auto prefix = header.first(std::min<std::uint64_t>(header.size(), identify_bytes));
    if (auto failure = recognize_foreign_format(prefix, file_bytes))
      return tl::unexpected(*std::move(failure));
  }
  return index;
}

}  // namespace penstock
