// SPDX-License-Identifier: Apache-2.0
// The words that service and client share (D4), as the dataplane sees them. The layout itself, in plain C, is
// service/protocol/session_region.h; a test compares the two.
//
// Page words: one 64-bit word a page, written by the dataplane thread, read-only for every client.
//   bits 63..62 residency (0 absent, 1 loading, 2 resident, 3 evicting); bit 61 several sessions have it; bits 60..0
//   generation.
// Pin words: one 64-bit word a page in the session's region, written by the client alone; untrusted here.
//   bits 63..62 state (0 unmapped, 1 mapped, 2 revoking); bit 61 wanted; bits 31..0 pin count.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "dataplane/base/ids.hpp"
#include "dataplane/base/mapping.hpp"
#include "dataplane/base/result.hpp"
#include "dataplane/base/unique_fd.hpp"
#include "dataplane/core/pager_events.hpp"

namespace penstock {

inline constexpr std::uint64_t pin_state_unmapped = 0, pin_state_mapped = 1, pin_state_revoking = 2;
inline constexpr std::uint64_t pin_state_shift = 62, pin_wanted_bit = 1ull << 61,
                               pin_count_mask = 0xffffffffull;

inline constexpr std::uint64_t page_several_bit = 1ull << 61;

constexpr std::uint64_t make_page_word(Residency residency, Generation generation) {
  return static_cast<std::uint64_t>(residency) << 62 | (raw(generation) & (page_several_bit - 1));
}

class PageWords {
 public:
  // A memfd of `pages` words, sealed so that clients can only read it.
  static Result<std::shared_ptr<PageWords>> create(std::uint32_t pages);
  ~PageWords();
  PageWords(const PageWords&) = delete;
  PageWords& operator=(const PageWords&) = delete;
  // Leaves whether several sessions have the page.
  void store(std::uint32_t page, Residency residency, Generation generation);
  void set_several(std::uint32_t page, bool several);
  std::uint64_t load(std::uint32_t page) const;
  std::uint32_t pages() const { return pages_; }
  int fd() const { return fd_.get(); }  // To send to clients; they map it read-only.
  std::uint64_t bytes() const { return bytes_; }

 private:
  PageWords() = default;
  UniqueFd fd_;
  Mapping mapping_;  // words_ points into it.
  std::atomic<std::uint64_t>* words_ = nullptr;
  std::uint64_t bytes_ = 0;
  std::uint32_t pages_ = 0;
};

// The service's read-only view of one session region. The client may write anything at any time.
class PinWords {
 public:
  // A memfd sealed in size; the client maps it read-write.
  static Result<std::shared_ptr<PinWords>> create(std::uint32_t pages);
  ~PinWords();
  PinWords(const PinWords&) = delete;
  PinWords& operator=(const PinWords&) = delete;
  std::uint32_t count(std::uint32_t page) const;  // Pin count as the client shows it, 0 when not mapped.
  std::uint32_t pages() const { return pages_; }
  int fd() const { return fd_.get(); }
  std::uint64_t bytes() const { return bytes_; }

 private:
  PinWords() = default;
  UniqueFd fd_;
  Mapping mapping_;  // words_ points into it.
  const std::atomic<std::uint64_t>* words_ = nullptr;
  std::uint64_t bytes_ = 0;
  std::uint32_t pages_ = 0;
};

}  // namespace penstock
