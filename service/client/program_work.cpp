// SPDX-License-Identifier: Apache-2.0
#include "service/client/program_work.hpp"

#include <algorithm>
#include <utility>

namespace penstock {
namespace {

constexpr std::int32_t invalid_context = 201;
// Some stream of the context captures. The same numbers on HIP.
bool spoils_a_capture(std::int32_t native) { return native >= 900 && native <= 908; }

}  // namespace

void ProgramWork::add(Page& page, const std::shared_ptr<WorkMark>& mark) {
  // As many stay as run, not as many as there were unpins.
  if (page.marks.size() >= page.sweep_at) {
    std::erase_if(page.marks, [](const auto& one) { return one->ask() == Ending::now; });
    page.sweep_at = std::max<std::size_t>(8, 2 * page.marks.size());
  }
  page.marks.push_back(mark);
}

void ProgramWork::follow_captures(Page& page) const {
  std::erase_if(page.captures, [&](const auto& capture) {
    const auto end = contexts_->end_of(*capture);
    if (end && *end) add(page, *end);
    return end.has_value();
  });
}

Result<> ProgramWork::note(PageSpan span, StreamHandle stream) {
  const std::lock_guard lock(mutex_);
  const OwnErrors errors(*streams_);
  while (const auto context = contexts_->find()) {
    const BorrowedContext in(*streams_, *context);
    if (in.entered().ok()) return note_in(context, span, stream);
    if (!is_over(in.entered())) return to_error(in.entered());
    contexts_->forget(context);
  }
  if (stream != StreamHandle{}) return to_error({invalid_context, "no context is current here, or known"});
  for (std::uint32_t page = span.first; page != span.end(); ++page) pages_[page].untold = true;
  return {};
}

Result<> ProgramWork::note_in(const std::shared_ptr<DriverContext>& context, PageSpan span,
                              StreamHandle stream) {
  bool capturing = false;
  std::shared_ptr<WorkMark> mark;
  DriverCode code = streams_->is_capturing(stream, capturing);
  if (code.ok() && !capturing) code = events_->record(context, stream, mark);
  if (classify(code) == DriverClass::context_dead) {
    contexts_->note_death(*context);
    return {};
  }
  if (!code.ok()) return to_error(code);
  if (capturing) {
    // What is captured does not run: whoever launches the graph pins its pages for that. What ran before still does.
    const auto capture = contexts_->note_capture(context, stream);
    for (std::uint32_t page = span.first; page != span.end(); ++page) {
      auto& captures = pages_[page].captures;
      if (std::ranges::find(captures, capture) == captures.end()) captures.push_back(capture);
    }
    return {};
  }
  contexts_->note_no_capture(context, stream, mark);
  for (std::uint32_t page = span.first; page != span.end(); ++page) add(pages_[page], mark);
  return {};
}

void ProgramWork::note_unknown(std::uint32_t page) {
  const std::lock_guard lock(mutex_);
  pages_[page].untold = true;
}

bool ProgramWork::quiet(std::uint32_t page) {
  const std::lock_guard lock(mutex_);
  Page& work = pages_[page];
  follow_captures(work);
  std::erase_if(work.marks, [](const auto& mark) { return mark->ask() == Ending::now; });
  return work.marks.empty() && work.captures.empty() && !work.untold;
}

bool ProgramWork::wait() {
  const std::lock_guard lock(mutex_);
  bool ended = true;
  for (Page& page : pages_) {
    follow_captures(page);
    for (const auto& mark : page.marks) ended = (mark->wait() || mark->wait()) && ended;
    ended = ended && page.captures.empty() && !page.untold;
  }
  return ended;
}

Ending ProgramWork::ending() {
  const std::lock_guard lock(mutex_);
  for (Page& page : pages_) {
    follow_captures(page);
    if (page.untold || !page.captures.empty()) return Ending::unknown;
    for (; !page.marks.empty(); page.marks.pop_back()) {
      if (const Ending found = page.marks.back()->ask(); found != Ending::now) return found;
    }
  }
  return Ending::now;
}

void ProgramWork::forget() {
  const std::lock_guard lock(mutex_);
  contexts_->forget_captures();
  for (Page& page : pages_) page = {};
}

Result<> settle_program(ProgramStreams& streams, ProgramContexts& contexts) {
  if (contexts.any_capture()) return Error{Errc::busy, 0, "a stream captures"};
  const OwnErrors errors(streams);
  while (const auto context = contexts.find()) {
    const BorrowedContext in(streams, *context);
    if (is_over(in.entered())) {
      contexts.forget(context);
      continue;
    }
    const DriverCode code = in.entered().ok() ? streams.synchronize() : in.entered();
    if (code.ok()) return {};
    if (spoils_a_capture(code.native)) return Error{Errc::busy, code.native, code.call};
    return to_error(code);
  }
  return {};
}

Result<> copy_to_host(ProgramStreams& streams, DeviceAddress from, std::uint64_t bytes, void* to,
                      void* stream) {
  const StreamHandle on{reinterpret_cast<std::uintptr_t>(stream)};
  const OwnErrors errors(streams);
  bool capturing = false;
  if (const DriverCode code = streams.is_capturing(on, capturing); !code.ok()) return to_error(code);
  // It would become part of the graph, and the wait would spoil the capture.
  if (capturing) return Error{Errc::busy, 0, "the stream captures"};
  const DriverCode code = streams.copy_out(to, from, bytes, on);
  if (code.ok()) return {};
  return to_error(code);
}

}  // namespace penstock
