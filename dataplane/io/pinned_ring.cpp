// SPDX-License-Identifier: Apache-2.0
#include "dataplane/io/pinned_ring.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "dataplane/base/check.hpp"
#include "dataplane/base/lock_memory.hpp"
#include "dataplane/base/memfd.hpp"
#include "dataplane/base/populate.hpp"
#include "dataplane/base/resource_limits.hpp"
#include "dataplane/base/units.hpp"
#include "dataplane/io/errno_name.hpp"

namespace penstock {
namespace {

// Reserved huge pages, already touched: a hugetlb cgroup that refuses them answers with SIGBUS at the first
// touch, which only MADV_POPULATE_WRITE (kernel 5.14) turns into an error.
Result<Mapping> take_reserved(std::uint64_t bytes) {
  Mapping memory = TRY(Mapping::anonymous(bytes, PageKind::hugetlb));
  TRY(populate_small(memory));
  return memory;
}

Outcome<std::unique_ptr<PinnedRing>> no_memory(std::uint64_t bytes, const Error& error) {
  return fail(FailureKind::exhausted,
              fmt::format("cannot map {} bytes of staging memory: {}", bytes, errno_name(error.native)));
}

}  // namespace

Outcome<std::unique_ptr<PinnedRing>> PinnedRing::make(const PinnedRingOptions& options) {
  const std::uint64_t slot = options.slot_bytes;
  if (slot == 0 || slot % small_page_bytes != 0 || slot > piece_bytes_max) {
    return fail(FailureKind::invalid_argument, fmt::format("a slot of {} bytes is no multiple of {} up to {}",
                                                           slot, small_page_bytes, piece_bytes_max));
  }
  if (options.slots == 0 || options.slots >= raw(no_slot)) {
    return fail(FailureKind::invalid_argument,
                fmt::format("{} slots are not between 1 and {}", options.slots, raw(no_slot) - 1));
  }
  if (options.shared) return make_shared(options);
  const std::uint64_t bytes = slot * options.slots;
  if (options.reserved_huge_pages) {
    if (auto reserved = take_reserved(bytes)) {
      auto ring = std::unique_ptr<PinnedRing>(new PinnedRing(*std::move(reserved), options));
      ring->huge_bytes_ = ring->bytes();
      ring->lock();
      return ring;
    }
  }
  auto plain = Mapping::anonymous(bytes, PageKind::transparent);
  if (!plain) return no_memory(bytes, plain.error());
  auto ring = std::unique_ptr<PinnedRing>(new PinnedRing(*std::move(plain), options));
  ring->populate();
  ring->lock();
  return ring;
}

// A file of whole huge pages, so that MADV_COLLAPSE can make it of them.
Outcome<std::unique_ptr<PinnedRing>> PinnedRing::make_shared(const PinnedRingOptions& options) {
  const std::uint64_t bytes = round_up(options.slot_bytes * options.slots, huge_page_bytes);
  auto file = create_memfd("penstock-staging", bytes);
  if (!file) return no_memory(bytes, file.error());
  auto memory = Mapping::shared(file->get(), bytes, Access::read_write, 0, huge_page_bytes);
  if (!memory) return no_memory(bytes, memory.error());
  auto ring = std::unique_ptr<PinnedRing>(new PinnedRing(*std::move(memory), options));
  ring->file_ = *std::move(file);
  ring->populate();
  ring->lock();
  return ring;
}

PinnedRing::PinnedRing(Mapping memory, const PinnedRingOptions& options)
    : memory_(std::move(memory)),
      slot_bytes_(options.slot_bytes),
      slots_(options.slots),
      taken_(options.slots, false) {
  // The kernel writes to these very pages: a child must not make copies of them.
  (void)memory_.keep_from_children(0, memory_.size());
  free_.reserve(slots_);
  for (std::uint32_t slot = slots_; slot-- > 0;) free_.push_back(SlotId{static_cast<std::uint16_t>(slot)});
}

// Makes everything present, so that the first reads pay nothing: in huge pages if the kernel has them all.
void PinnedRing::populate() {
  if (const auto huge = populate_huge(memory_)) {
    huge_bytes_ = memory_.size();
  } else {
    huge_errno_ = huge.error().native;
    (void)populate_small(memory_);  // What is not present now comes with the first read.
  }
}

void PinnedRing::lock() {
  if (const auto locked = lock_memory(memory_); !locked) lock_errno_ = locked.error().native;
}

std::optional<SlotId> PinnedRing::take() {
  if (free_.empty()) return std::nullopt;
  const SlotId slot = free_.back();
  free_.pop_back();
  taken_[raw(slot)] = true;
  return slot;
}

void PinnedRing::give_back(SlotId slot) {
  CHECK(raw(slot) < slots_ && taken_[raw(slot)]);
  taken_[raw(slot)] = false;
  free_.push_back(slot);
}

std::byte* PinnedRing::address(SlotId slot) const {
  CHECK(raw(slot) < slots_);
  return memory_.data() + slot_bytes_ * raw(slot);
}

std::vector<std::span<std::byte>> PinnedRing::pieces() const {
  std::vector<std::span<std::byte>> pieces;
  const std::uint64_t used = slot_bytes_ * slots_;
  const std::uint64_t piece = slot_bytes_ * slots_per_piece();
  for (std::uint64_t at = 0; at < used; at += piece) {
    pieces.emplace_back(memory_.data() + at, std::min(piece, used - at));
  }
  return pieces;
}

std::uint16_t PinnedRing::piece_of(SlotId slot) const {
  CHECK(raw(slot) < slots_);
  return static_cast<std::uint16_t>(raw(slot) / slots_per_piece());
}

std::string locked_memory_advice(std::uint64_t wanted_bytes) {
  const auto limit = locked_memory_limit();
  const std::string soft = !limit                    ? "unknown"
                           : limit->soft == no_limit ? "unlimited"
                                                     : std::to_string(limit->soft);
  return fmt::format(
      "wanted {} bytes, the limit of locked memory is {}: raise LimitMEMLOCK= in the unit file, or the "
      "container "
      "runtime's memlock ulimit (--ulimit memlock=), or grant CAP_IPC_LOCK",
      wanted_bytes, soft);
}

}  // namespace penstock
