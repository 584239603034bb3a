// SPDX-License-Identifier: Apache-2.0
// GpuMapper: the program's work on pages that it has unpinned.
#include <algorithm>
#include <utility>

#include "service/client/gpu_mapper.hpp"

namespace penstock {
namespace {

// No context is current: this thread has queued nothing.
constexpr std::int32_t invalid_context = 201;
// Some stream of the context captures. The same numbers on HIP.
bool spoils_a_capture(std::int32_t native) { return native >= 900 && native <= 908; }

// Of an event that was asked for. A thread that can't ask learns nothing; the work of a context that died has died with it.
bool has_ended(DriverCode code) {
  if (code.native == invalid_context) return false;
  return code.ok() || classify(code) == DriverClass::context_dead;
}

}  // namespace

GpuMapper::Mark::~Mark() {
  if (event) owner.spare_.push_back(*event);
}

// REQUIRES: work_ is held.
DriverCode GpuMapper::record(Mark& mark) {
  // An event belongs to the context that it was made in: the program may have gone on to another one.
  if (!spare_.empty()) {
    const EventHandle event = spare_.back();
    spare_.pop_back();
    if (const DriverCode code = gpu_.streams->record_event(event, mark.stream); code.ok()) {
      mark.event = event;
      return code;
    }
    static_cast<void>(insist([&] { return gpu_.streams->destroy_event(event); }));
  }
  EventHandle event{};
  DriverCode code = gpu_.streams->make_event(event);
  if (!code.ok()) return code;
  code = gpu_.streams->record_event(event, mark.stream);
  if (code.ok())
    mark.event = event;
  else
    static_cast<void>(insist([&] { return gpu_.streams->destroy_event(event); }));
  return code;
}

Result<> GpuMapper::note_work(PageSpan span, void* stream) {
  const std::lock_guard lock(work_);
  const StreamHandle on{reinterpret_cast<std::uintptr_t>(stream)};
  bool capturing = false;
  DriverCode code = gpu_.streams->is_capturing(on, capturing);
  if (code.native == invalid_context && stream == nullptr) return {};
  if (!code.ok()) return to_error(code);
  capturing_ = capturing;
  // What is captured does not run: whoever launches the graph pins its pages for that.
  if (capturing) return {};
  const auto mark = std::make_shared<Mark>(*this, on);
  code = record(*mark);
  if (!code.ok()) return to_error(code);
  for (std::uint32_t page = span.first; page != span.end(); ++page) {
    auto& marks = pages_[page].marks;
    const auto older =
        std::find_if(marks.begin(), marks.end(), [&](const auto& one) { return one->stream == on; });
    if (older == marks.end())
      marks.push_back(mark);
    else
      *older = mark;
  }
  return {};
}

bool GpuMapper::quiet(std::uint32_t page) {
  const std::lock_guard lock(work_);
  auto& marks = pages_[page].marks;
  if (capturing_) return false;
  if (marks.empty()) return true;
  // Any stream may capture, without our having been told.
  const RelaxedCaptures relaxed(*gpu_.streams);
  std::erase_if(marks, [&](const auto& mark) { return ask(*mark) == Ending::now; });
  return marks.empty();
}

// REQUIRES: work_ is held, and captures are relaxed.
Ending GpuMapper::ask(Mark& mark) {
  if (mark.reached) return Ending::now;
  const DriverCode code = gpu_.streams->query_event(*mark.event);
  mark.reached = has_ended(code);
  if (mark.reached) return Ending::now;
  return classify(code) == DriverClass::not_ready ? Ending::later : Ending::unknown;
}

bool GpuMapper::wait(Mark& mark) {
  if (!mark.reached) mark.reached = has_ended(insist([&] { return gpu_.streams->wait_event(*mark.event); }));
  return mark.reached;
}

Ending GpuMapper::ending(bool pinned) {
  if (pinned) return Ending::unknown;
  const std::lock_guard lock(work_);
  // A capture that was seen last may be over, and nobody tells. Relaxed, nothing that follows spoils it; its work does not
  // run, and whoever launches the graph needs the table.
  const RelaxedCaptures relaxed(*gpu_.streams);
  for (Page& page : pages_) {
    for (; !page.marks.empty(); page.marks.pop_back()) {
      if (const Ending found = ask(*page.marks.back()); found != Ending::now) return found;
    }
  }
  return Ending::now;
}

void GpuMapper::forget_work() {
  const std::lock_guard lock(work_);
  capturing_ = false;
  for (Page& page : pages_) page.marks.clear();
}

Result<> copy_to_host(ProgramStreams& streams, DeviceAddress from, std::uint64_t bytes, void* to,
                      void* stream) {
  const StreamHandle on{reinterpret_cast<std::uintptr_t>(stream)};
  bool capturing = false;
  if (const DriverCode code = streams.is_capturing(on, capturing); !code.ok()) return to_error(code);
  // It would become part of the graph, and the wait would spoil the capture.
  if (capturing) return Error{Errc::busy, 0, "the stream captures"};
  const DriverCode code = streams.copy_out(to, from, bytes, on);
  if (code.ok()) return {};
  return to_error(code);
}

Result<> GpuMapper::copy_out(std::uint64_t offset, std::uint64_t bytes, void* to, void* stream) {
  return copy_to_host(*gpu_.streams, base_ + offset, bytes, to, stream);
}

Result<> GpuMapper::settle_thread() {
  {
    const std::lock_guard lock(work_);
    if (capturing_) return Error{Errc::busy, 0, "a stream captures"};
  }
  const DriverCode code = gpu_.streams->synchronize();
  if (code.ok() || code.native == invalid_context) return {};
  if (spoils_a_capture(code.native)) return Error{Errc::busy, code.native, code.call};
  return to_error(code);
}

}  // namespace penstock
