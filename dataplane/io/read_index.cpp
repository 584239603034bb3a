// SPDX-License-Identifier: Apache-2.0
#include "dataplane/io/read_index.hpp"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <span>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "dataplane/core/checkpoint_parser.hpp"
#include "dataplane/io/errno_name.hpp"

namespace penstock {
namespace {

Outcome<void> read_exactly(int fd, std::uint64_t offset, std::span<std::byte> out) {
  while (!out.empty()) {
    const ssize_t got = ::pread(fd, out.data(), out.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      return fail(FailureKind::io_error,
                  fmt::format("reading the header at byte {}: {}", offset, errno_name(errno)));
    }
    if (got == 0) {
      return fail(FailureKind::changed_while_read,
                  fmt::format("ended at byte {} while its header was read", offset),
                  "another program writes this file: wait until it is done");
    }
    offset += static_cast<std::uint64_t>(got);
    out = out.subspan(static_cast<std::size_t>(got));
  }
  return {};
}

}  // namespace

Outcome<CheckpointIndex> read_index_of(const CheckpointFile& file) {
  const std::uint64_t file_bytes = file.identity().bytes;
  std::vector<std::byte> header(std::min(file_bytes, identify_bytes));
  if (auto read = read_exactly(file.cached_fd(), 0, header); !read)
    return tl::unexpected(std::move(read.error()));
  const auto plan = identify(header, file_bytes);
  if (!plan) return tl::unexpected(plan.error());
  const std::size_t have = std::min<std::size_t>(header.size(), plan->header_bytes);
  header.resize(plan->header_bytes);
  const auto rest = std::span(header).subspan(have);
  if (auto read = read_exactly(file.cached_fd(), have, rest); !read)
    return tl::unexpected(std::move(read.error()));
  auto index = parse_header(header, file_bytes);
  // A header of one moment must not meet bytes of another; and a file that changed explains a strange header.
  if (auto unchanged = file.verify_unchanged(); !unchanged)
    return tl::unexpected(std::move(unchanged.error()));
  return index;
}

}  // namespace penstock
