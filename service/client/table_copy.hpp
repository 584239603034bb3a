// SPDX-License-Identifier: Apache-2.0
// TableCopy: a whole table in memory of a GPU that has no virtual memory management, so that nothing can be shared there. One
// allocation of this process's own, filled page by page from the table in host memory. Any thread.
//
//   C1. The address and what was copied stay until the last user has closed: nothing is asked back, and nothing evicted.
//   C2. A page is copied before it is ready, and never again: it is the bytes of a file.
//   C3. Pages of host memory are pinned while they are copied, a few at a time: a table may be larger than the host device.
//   C4. All calls of the driver are made in the context that was current when the table was opened, and leave the calling
//       thread's own as it was. They spoil no capture.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "dataplane/base/clock.hpp"
#include "dataplane/base/failure.hpp"
#include "dataplane/base/units.hpp"
#include "service/client/page_mapper.hpp"
#include "service/client/process_gpus.hpp"
#include "service/client/program_work.hpp"

namespace penstock {

// The table in host memory.
struct PageSource {
  const std::byte* address = nullptr;
  // Until unpin the pages can be read at their places.
  std::function<Outcome<void>(PageSpan)> pin;
  std::function<void(PageSpan)> unpin;
};

class TableCopy {
 public:
  struct Size {
    std::uint64_t bytes = 0;
    std::uint64_t page_bytes = 0;
    std::uint32_t pages = 0;
    // Of host memory, pinned at once: long enough that a wait for each costs nothing beside the bus.
    std::uint64_t run_bytes = 64 * mib;
  };
  // `exhausted`: the GPU has no room for the whole table.
  static Outcome<std::shared_ptr<TableCopy>> create(const PlainGpu& gpu, const Size& size);
  // Gives the memory back, for which some drivers wait for all that is queued on the GPU; then says so. Holding no lock that
  // others need.
  ~TableCopy();
  TableCopy(const TableCopy&) = delete;
  TableCopy& operator=(const TableCopy&) = delete;

  std::byte* address() const { return reinterpret_cast<std::byte*>(static_cast<std::uintptr_t>(base_)); }
  const GpuDescription& gpu() const { return gpu_.gpu.driver->description(); }
  const Size& size() const { return size_; }
  // Called once the memory is given back, by the thread of the last user. Once, before others use the copy.
  void on_freed(std::function<void()> freed) { freed_ = std::move(freed); }

  // Copies the pages that are not ready. Those that were copied stay when another one fails.
  Outcome<void> fill(PageSpan span, const PageSource& source, Nanoseconds deadline);
  bool ready(PageSpan span) const;

  // Pins are counted alone, so that a stray unpin is found. REQUIRES: the span is ready.
  void pin(PageSpan span);
  // False: a page has no pin to give up; those before it have been given up.
  bool unpin(PageSpan span);
  bool pinned(PageSpan span) const;

  // ---- the program's work ----
  // Of an unpin. What can't be told is left to the driver, which waits for it itself.
  void note_work(void* stream);
  // Whether the memory may be given back: not while a capture lasts that was told of. Waits for nothing.
  Ending ending();
  void forget_work() { work_.forget(); }

  // Behind what is queued on `stream`, in the calling thread's own context. REQUIRES: the pages are ready.
  Result<> copy_out(std::uint64_t offset, std::uint64_t bytes, void* to, void* stream) const;

 private:
  class Borrowed;
  class Turn;

  TableCopy(const PlainGpu& gpu, const Size& size, DeviceAddress base)
      : gpu_(gpu),
        size_(size),
        base_(base),
        work_(gpu.gpu.streams, gpu.gpu.contexts, 1),
        ready_(size.pages),
        pins_(size.pages) {}
  Outcome<void> fill_run(PageSpan run, const PageSource& source) const;
  DriverCode copy(PageSpan run, const std::byte* from) const;

  const PlainGpu gpu_;
  const Size size_;
  const DeviceAddress base_;
  ProgramWork work_;  // As one page.
  std::function<void()> freed_;
  std::vector<std::atomic<bool>> ready_;
  std::vector<std::atomic<std::uint32_t>> pins_;

  std::mutex mutex_;  // Held for a look at the flag.
  std::condition_variable turn_ended_;
  bool filling_ = false;
};

}  // namespace penstock
