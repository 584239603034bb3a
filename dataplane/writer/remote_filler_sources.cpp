// SPDX-License-Identifier: Apache-2.0
// RemoteFiller: the memory that its writers copy from.
#include <algorithm>
#include <cerrno>
#include <utility>

#include <fcntl.h>

#include "dataplane/base/check.hpp"
#include "dataplane/writer/remote_filler.hpp"

namespace penstock {

Result<FenceId> RemoteFiller::add_source(SourceId source, std::span<std::byte> memory, int fd) {
  CHECK(source != SourceId{} && !memory.empty());
  const auto added = sources_.emplace(memory.data(), Source{.id = source, .bytes = memory.size(), .fd = fd});
  CHECK(added.second);
  if (!running()) return FenceId{};
  Result<FenceId> fence = tell(added.first->second);
  if (!fence) sources_.erase(added.first);
  return fence;
}

Result<FenceId> RemoteFiller::tell(Source& source) {
  // An own descriptor: the memory may be gone before this is sent.
  UniqueFd own(::fcntl(source.fd, F_DUPFD_CLOEXEC, 0));
  if (!own) return Error{Errc::exhausted, errno, "descriptor for the writer"};
  source.told_to = incarnation_;
  return queue({.op = WriterOp::add_source, .bytes = source.bytes, .source = source.id}, std::move(own));
}

Result<FenceId> RemoteFiller::drop_source(SourceId source) {
  const auto found =
      std::ranges::find_if(sources_, [source](const auto& entry) { return entry.second.id == source; });
  CHECK(found != sources_.end());
  const bool is_known = running() && found->second.told_to == incarnation_;
  sources_.erase(found);
  if (!is_known) return FenceId{};
  return queue({.op = WriterOp::drop_source, .source = source});
}

// Where a copy's bytes are, as the present writer knows it.
Result<RemoteFiller::Place> RemoteFiller::place_of(std::span<const std::byte> source) {
  const std::byte* const staged = staging_.memory.data();
  if (source.data() >= staged && source.data() + source.size() <= staged + staging_.memory.size()) {
    return Place{.source = {}, .offset = static_cast<std::uint64_t>(source.data() - staged)};
  }
  auto found = sources_.upper_bound(source.data());
  CHECK(found != sources_.begin());
  --found;
  const auto offset = static_cast<std::uint64_t>(source.data() - found->first);
  CHECK(offset + source.size() <= found->second.bytes);
  if (found->second.told_to != incarnation_) TRY(tell(found->second));
  return Place{.source = found->second.id, .offset = offset};
}

}  // namespace penstock
