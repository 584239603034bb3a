// SPDX-License-Identifier: Apache-2.0
// PinnedRing: the staging memory that direct reads land in: equal slots in one mapping, in huge pages and
// locked where the system allows it. Owns the memory and says which slots are free.
//
// Slots are handed out last in, first out, so that a reader that needs few keeps using the same few, still in
// the processor's cache. Thread rule: take and give_back on one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dataplane/base/failure.hpp"
#include "dataplane/base/ids.hpp"
#include "dataplane/base/mapping.hpp"
#include "dataplane/base/unique_fd.hpp"

namespace penstock {

struct PinnedRingOptions {
  std::uint64_t slot_bytes = 512 * 1024;  // A multiple of 4096, at most piece_bytes_max.
  std::uint32_t slots = 64;               // 1 ... 65534
  bool reserved_huge_pages = true;        // May take from the hugetlb pool.
  bool shared = false;                    // Another process maps it too: fd() is its descriptor.
};

class PinnedRing {
 public:
  // One io_uring registered buffer is at most this long.
  static constexpr std::uint64_t piece_bytes_max = 1ull << 30;

  // Fails only when the plain memory can't be had, or the options are out of range.
  static Outcome<std::unique_ptr<PinnedRing>> make(const PinnedRingOptions& options);
  PinnedRing(const PinnedRing&) = delete;
  PinnedRing& operator=(const PinnedRing&) = delete;

  std::optional<SlotId> take();  // Empty when all slots are out.
  void give_back(SlotId slot);   // REQUIRES: taken, and no read or copy of it is under way.
  std::byte* address(SlotId slot) const;

  std::uint64_t slot_bytes() const { return slot_bytes_; }
  std::uint32_t slots() const { return slots_; }
  std::uint32_t free_slots() const { return static_cast<std::uint32_t>(free_.size()); }
  std::uint64_t bytes() const { return memory_.size(); }
  std::span<std::byte> memory() const { return memory_.bytes(); }
  int fd() const { return file_.get(); }  // Of a shared ring, mapped from its start; else -1.

  // Whole slots, each piece at most piece_bytes_max: what io_uring registers.
  std::vector<std::span<std::byte>> pieces() const;
  // Which of pieces() holds the slot.
  std::uint16_t piece_of(SlotId slot) const;

  std::uint64_t huge_bytes() const { return huge_bytes_; }  // Known to lie in 2 MiB pages: all or none.
  bool locked() const { return lock_errno_ == 0; }
  int lock_errno() const { return lock_errno_; }  // Of the mlock that failed; 0 = locked.
  int huge_errno() const { return huge_errno_; }  // Why huge_bytes() < bytes().

 private:
  PinnedRing(Mapping memory, const PinnedRingOptions& options);
  static Outcome<std::unique_ptr<PinnedRing>> make_shared(const PinnedRingOptions& options);
  void populate();
  void lock();
  std::uint32_t slots_per_piece() const { return static_cast<std::uint32_t>(piece_bytes_max / slot_bytes_); }

  UniqueFd file_;
  Mapping memory_;
  std::uint64_t slot_bytes_;
  std::uint32_t slots_;
  std::vector<SlotId> free_;  // The back is handed out next.
  std::vector<bool> taken_;
  std::uint64_t huge_bytes_ = 0;
  int lock_errno_ = 0;
  int huge_errno_ = 0;
};

// "wanted 67108864 bytes, the limit of locked memory is 65536: raise ...": for any refusal to lock or
// register memory.
std::string locked_memory_advice(std::uint64_t wanted_bytes);

}  // namespace penstock
