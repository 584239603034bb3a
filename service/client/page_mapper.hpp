// SPDX-License-Identifier: Apache-2.0
// PageMapper: how the pages of one table come into this process and leave it. It owns the table's address range; which page
// is whose, and which has pins, is the table's to know. Called under the device's lock, except for note_work.
#pragma once

#include <cstddef>
#include <cstdint>

#include "dataplane/base/failure.hpp"
#include "dataplane/base/mapping.hpp"
#include "dataplane/base/result.hpp"

namespace penstock {

struct PageSpan {
  std::uint32_t first = 0;
  std::uint32_t count = 0;
  std::uint32_t end() const { return first + count; }
};

// Whether a table that nobody uses any more may be unmapped.
enum class Ending : std::uint8_t {
  now,
  later,    // Work that was noted still runs.
  unknown,  // The calling thread can't find out, or nothing tells of the work.
};

class PageMapper {
 public:
  // Unmaps everything and gives the range up.
  virtual ~PageMapper() = default;
  PageMapper(const PageMapper&) = delete;
  PageMapper& operator=(const PageMapper&) = delete;

  virtual std::byte* address() const = 0;

  // Maps a frame at the page's place, where another one may be. finish_run follows, for the run of neighbours with equal
  // access that the page is in; until then nothing may touch it.
  virtual Result<> place(std::uint32_t page, int fd, Access access) = 0;
  virtual Result<> finish_run(PageSpan placed, Access access) = 0;
  // One finish_run for pages that came in several messages is worth waiting for.
  virtual bool gains_by_waiting() const = 0;
  // `fd` of place stays open until finish_run.
  virtual bool needs_descriptors() const = 0;
  // After a failure of finish_run: pages that were mapped before have to stay, without what it was to bring.
  virtual bool usable_unfinished() const = 0;
  // What a failure of those two is to the user.
  virtual Failure refusal(const Error& error) const = 0;
  // True: place puts one frame in place of another in one step, under whoever reads.
  virtual bool replaces_at_once() const = 0;
  // REQUIRES: quiet.
  virtual Result<> remove(std::uint32_t page) = 0;
  // Some frame is at the page's place.
  virtual bool is_mapped(std::uint32_t page) const = 0;
  // All of it that is mapped. Refused in part, the rest is.
  // REQUIRES: ending() is `now`, or the program has synchronised.
  virtual Result<> unmap_all() = 0;

  // ---- device work that reads pages after their unpin ----
  // Until the work that is queued on `stream` now has ended, the pages are not quiet. Any thread; before the unpin.
  virtual Result<> note_work(PageSpan span, void* stream) = 0;
  // Nothing that was noted still runs.
  virtual bool quiet(std::uint32_t page) = 0;
  // Pages were given up without a word of the work that may use them: they are not quiet until forget_work.
  virtual void note_unknown(std::uint32_t page) = 0;
  // The program has synchronised: all that was noted has ended.
  virtual void forget_work() = 0;
  // `pinned`: there are pages that were never unpinned. Waits for nothing.
  virtual Ending ending(bool pinned) = 0;
  // Waits for the calling thread's work, without the device's lock: frames will be replaced under its own pins.
  virtual Result<> settle_thread() = 0;

  // ---- looking ----
  // Copies bytes of the range to host memory, behind what is queued on `stream`. Any thread, without the device's lock.
  // REQUIRES: the pages are pinned.
  virtual Result<> copy_out(std::uint64_t offset, std::uint64_t bytes, void* to, void* stream) = 0;

  // ---- copy-on-write ----
  virtual Result<> make_writable(std::uint32_t page) = 0;
  virtual Result<> drop_copies(std::uint32_t page) = 0;

 protected:
  PageMapper() = default;
};

}  // namespace penstock
