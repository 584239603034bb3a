// SPDX-License-Identifier: Apache-2.0
#include "dataplane/writer/host_filler.hpp"

#include <cstring>
#include <utility>

#include "dataplane/base/check.hpp"
#include "dataplane/base/memfd.hpp"
#include "dataplane/base/populate.hpp"
#include "dataplane/kernels/convert.hpp"

namespace penstock {

Result<Mapping> HostFiller::map_memory(int fd, std::uint64_t bytes, Use use) {
  // A mapping past the end of the file would fault.
  if (TRY(size_of(fd)) < bytes) return Error{Errc::invalid, 0, "size of a frame"};
  const Access access = use == Use::fill ? Access::read_write : Access::read;
  Mapping mapping = TRY(Mapping::shared(fd, bytes, access));
  TRY(exclude_from_dumps(mapping));
  if (use == Use::fill) std::memset(mapping.data(), 0, mapping.size());
  return mapping;
}

Result<FenceId> HostFiller::map(FrameId frame, int fd, std::uint64_t bytes, Use use) {
  Result<Mapping> mapping = map_memory(fd, bytes, use);
  const FenceId fence = next_fence();
  if (!mapping) map_failures_.emplace(fence, mapping.error());
  CHECK(frames_.emplace(frame, mapping ? *std::move(mapping) : Mapping()).second);
  return fence;
}

std::optional<Error> HostFiller::take_map_failure(FenceId fence) {
  const auto found = map_failures_.find(fence);
  if (found == map_failures_.end()) return std::nullopt;
  const Error error = found->second;
  map_failures_.erase(found);
  return error;
}

Result<FenceId> HostFiller::unmap(FrameId frame) {
  CHECK(frames_.erase(frame) == 1);
  return next_fence();
}

Result<FenceId> HostFiller::copy(FrameId frame, std::uint64_t offset, std::span<const std::byte> source,
                                 const CopyConversion& conversion) {
  const std::span<std::byte> target = frames_.at(frame).bytes().subspan(offset);
  if (conversion.stored == conversion.wanted) {
    if (!source.empty()) std::memcpy(target.data(), source.data(), source.size());
  } else {
    const std::uint64_t elements = source.size() * 8 / dtype_bits(conversion.stored);
    convert(conversion.stored, source, conversion.wanted,
            target.first(elements * dtype_bits(conversion.wanted) / 8), conversion.scale);
  }
  return next_fence();
}

Result<FenceId> HostFiller::copy_frame(FrameId to, FrameId from) {
  const std::span<const std::byte> source = frames_.at(from).bytes();
  std::memcpy(frames_.at(to).data(), source.data(), source.size());
  return next_fence();
}

Result<FenceId> HostFiller::checksum(FrameId frame) {
  const FenceId fence = next_fence();
  checksums_.emplace(fence, penstock::checksum(frames_.at(frame).bytes()));
  return fence;
}

std::optional<Result<std::uint64_t>> HostFiller::take_checksum(FenceId fence) {
  const auto found = checksums_.find(fence);
  CHECK(found != checksums_.end());
  const std::uint64_t value = found->second;
  checksums_.erase(found);
  return value;
}

}  // namespace penstock
