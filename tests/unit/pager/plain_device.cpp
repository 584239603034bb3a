// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/pager/plain_device.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fcntl.h>

#include "dataplane/base/check.hpp"
#include "dataplane/base/memfd.hpp"
#include "dataplane/kernels/convert.hpp"

namespace penstock::test {

DeviceLimits PlainDevice::Owner::limits() const {
  const Options& options = device_.options_;
  return {.frame_bytes = options.frame_bytes,
          .capacity_bytes = options.frame_bytes * options.frames,
          .frames_are_addressable = options.addressable};
}

void PlainDevice::Owner::create(std::uint64_t tag) {
  if (device_.frames_.size() >= device_.options_.frames) {
    device_.created_.push_back({.tag = tag, .result = CreateResult::exhausted});
    return;
  }
  Result<UniqueFd> file = create_memfd("plain", device_.options_.frame_bytes);
  CHECK(file);
  Result<Mapping> memory = Mapping::shared(file->get(), device_.options_.frame_bytes, Access::read_write);
  CHECK(memory);
  const FrameId id{++device_.last_frame_};
  device_.frames_.emplace(id, Frame{.file = *std::move(file), .memory = *std::move(memory)});
  device_.created_.push_back({.tag = tag, .frame = id});
}

std::size_t PlainDevice::Owner::reap(std::span<CreateDone> done) {
  std::deque<CreateDone>& created = device_.created_;
  const std::size_t count = std::min(done.size(), created.size());
  std::copy_n(created.begin(), count, done.begin());
  created.erase(created.begin(), created.begin() + static_cast<std::ptrdiff_t>(count));
  return count;
}

void PlainDevice::Owner::destroy(FrameId frame) { CHECK(device_.frames_.erase(frame) == 1); }

Result<ExportedFrame> PlainDevice::Owner::share(FrameId frame, FrameAccess) {
  if (device_.share_failures_ > 0) {
    --device_.share_failures_;
    return Error{.code = Errc::exhausted, .native = EMFILE, .operation = "share"};
  }
  return ExportedFrame(UniqueFd(::fcntl(device_.frames_.at(frame).file.get(), F_DUPFD_CLOEXEC, 0)));
}

Result<FenceId> PlainDevice::Writer::copy(FrameId frame, std::uint64_t offset,
                                          std::span<const std::byte> source,
                                          const CopyConversion& conversion) {
  if (device_.full()) return Error{.code = Errc::busy, .operation = "copy"};
  const std::span<std::byte> target = device_.bytes(frame).subspan(offset);
  if (conversion.stored == conversion.wanted) {
    CHECK(source.size() <= target.size());
    std::memcpy(target.data(), source.data(), source.size());
  } else {
    const std::uint64_t elements = source.size() * 8 / dtype_bits(conversion.stored);
    convert(conversion.stored, source, conversion.wanted,
            target.first(elements * dtype_bits(conversion.wanted) / 8), conversion.scale);
  }
  return device_.newest_ = FenceId{raw(device_.newest_) + 1};
}

Result<FenceId> PlainDevice::Writer::copy_frame(FrameId to, FrameId from) {
  return copy(to, 0, device_.bytes(from), {});
}

std::span<std::byte> PlainDevice::Writer::address(FrameId frame) {
  return device_.options_.addressable ? device_.bytes(frame) : std::span<std::byte>();
}

Result<FenceId> PlainDevice::Writer::reached() {
  if (!device_.fences_held_) device_.reached_ = device_.newest_;
  return device_.reached_;
}

}  // namespace penstock::test
