// SPDX-License-Identifier: Apache-2.0
// ProgramWork: what unpins told of the program's work on pages of one range. It asks for events, and waits for none unless it
// says so. Any thread, in whatever context; it spoils no capture.
//
//   W1. A page is quiet while each event that was recorded at its unpins is reached, no stream that it was unpinned on still
//       captures, as far as that was seen, what was queued on that stream before the capture has ended, and there was a
//       context to tell of each unpin.
//   W2. No mark takes the place of another one: one handle may be several streams (of threads, of contexts, of one that was
//       destroyed and another one made), whose work is out of order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "service/client/page_mapper.hpp"
#include "service/client/program_contexts.hpp"
#include "service/client/work_marks.hpp"

namespace penstock {

class ProgramWork {
 public:
  ProgramWork(std::shared_ptr<ProgramStreams> streams, std::shared_ptr<ProgramContexts> contexts,
              std::uint32_t pages)
      : streams_(std::move(streams)),
        contexts_(std::move(contexts)),
        events_(std::make_shared<EventPool>(streams_)),
        pages_(pages) {}
  ProgramWork(const ProgramWork&) = delete;
  ProgramWork& operator=(const ProgramWork&) = delete;

  // Until the work that is queued on `stream` now has ended, the pages are not quiet.
  Result<> note(PageSpan span, StreamHandle stream);
  // Nobody tells of what uses the page: until `forget` it is not quiet.
  void note_unknown(std::uint32_t page);
  bool quiet(std::uint32_t page);
  // Of all pages. Of what ran before a capture that lasts nobody knows.
  Ending ending();
  // The program has synchronised: all that was noted has ended.
  void forget();
  // Waits for all of it. False: that could not be done.
  bool wait();

 private:
  struct Page {
    std::vector<std::shared_ptr<WorkMark>> marks;
    std::vector<std::shared_ptr<ProgramContexts::SeenCapture>> captures;
    bool untold = false;  // It was unpinned where no context could tell of its work.
    std::size_t sweep_at = 8;
  };

  // All: under mutex_. The context is entered.
  Result<> note_in(const std::shared_ptr<DriverContext>& context, PageSpan span, StreamHandle stream);
  static void add(Page& page, const std::shared_ptr<WorkMark>& mark);
  // Captures that are over give way to the marks behind them.
  void follow_captures(Page& page) const;

  const std::shared_ptr<ProgramStreams> streams_;
  const std::shared_ptr<ProgramContexts> contexts_;
  const std::shared_ptr<EventPool> events_;
  std::mutex mutex_;
  std::vector<Page> pages_;
};

// Waits for everything that the program has queued in the calling thread's context, or the one that stands in for it.
// Errc::busy: something captures.
Result<> settle_program(ProgramStreams& streams, ProgramContexts& contexts);
// Behind what is queued on `stream`, in the calling thread's context. Errc::busy while that captures.
Result<> copy_to_host(ProgramStreams& streams, DeviceAddress from, std::uint64_t bytes, void* to,
                      void* stream);

}  // namespace penstock
