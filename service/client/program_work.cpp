// SPDX-License-Identifier: Apache-2.0
#include "service/client/program_work.hpp"

#include <algorithm>
#include <utility>

namespace penstock {
namespace {

constexpr std::int32_t invalid_context = 201, invalid_handle = 400;
// Some stream of the context captures. The same numbers on HIP.
bool spoils_a_capture(std::int32_t native) { return native >= 900 && native <= 908; }

// Of a context that is to be entered: the program has ended it, or it is broken. Its work has died with it.
bool is_over(DriverCode code) {
  return code.native == invalid_handle || classify(code) == DriverClass::context_dead;
}

// An event, in its context. That it is unknown there, and once more, says that the context was reset.
template <class Ask>
DriverCode ask_event(const Ask& ask) {
  const auto is_unknown = [](DriverCode code) {
    return code.native == invalid_handle || code.native == invalid_context;
  };
  const DriverCode first = ask();
  const DriverCode code = is_unknown(first) ? ask() : first;
  const bool died = is_unknown(code) || classify(code) == DriverClass::context_dead;
  return died ? DriverCode{0, code.call} : code;
}

}  // namespace

ProgramWork::~ProgramWork() {
  for (Page& page : pages_) page = {};
  for (const ContextEvent& made : spare_) {
    const BorrowedContext in(*streams_, *made.context);
    if (in.entered().ok()) static_cast<void>(insist([&] { return streams_->destroy_event(made.event); }));
  }
}

DriverCode ProgramWork::record(Mark& mark, const std::shared_ptr<DriverContext>& context,
                               StreamHandle stream) {
  const auto spare =
      std::ranges::find_if(spare_, [&](const ContextEvent& one) { return one.context == context; });
  if (spare != spare_.end()) {
    const ContextEvent found = *spare;
    spare_.erase(spare);
    if (const DriverCode code = streams_->record_event(found.event, stream); code.ok()) {
      mark.made = found;
      return code;
    }
    static_cast<void>(insist([&] { return streams_->destroy_event(found.event); }));
  }
  EventHandle event{};
  DriverCode code = streams_->make_event(event);
  if (!code.ok()) return code;
  code = streams_->record_event(event, stream);
  if (code.ok())
    mark.made = ContextEvent{context, event};
  else
    static_cast<void>(insist([&] { return streams_->destroy_event(event); }));
  return code;
}

void ProgramWork::add(Page& page, const std::shared_ptr<Mark>& mark) {
  // As many stay as run, not as many as there were unpins.
  if (page.marks.size() >= page.sweep_at) {
    std::erase_if(page.marks, [&](const auto& one) { return ask(*one) == Ending::now; });
    page.sweep_at = std::max<std::size_t>(8, 2 * page.marks.size());
  }
  page.marks.push_back(mark);
}

Result<> ProgramWork::note(PageSpan span, StreamHandle stream) {
  const std::lock_guard lock(mutex_);
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
  DriverCode code = streams_->is_capturing(stream, capturing);
  // Nothing runs in such a context any more.
  if (classify(code) == DriverClass::context_dead) return {};
  if (!code.ok()) return to_error(code);
  if (capturing) {
    // What is captured does not run: whoever launches the graph pins its pages for that. What ran before still does.
    const auto capture = contexts_->note_capture(stream);
    for (std::uint32_t page = span.first; page != span.end(); ++page) {
      auto& captures = pages_[page].captures;
      if (std::ranges::find(captures, capture) == captures.end()) captures.push_back(capture);
    }
    return {};
  }
  contexts_->note_no_capture(stream);
  const auto mark = std::make_shared<Mark>(*this);
  code = record(*mark, context, stream);
  if (classify(code) == DriverClass::context_dead) return {};
  if (!code.ok()) return to_error(code);
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
  std::erase_if(work.captures, [&](const auto& capture) { return !contexts_->lasts(capture); });
  std::erase_if(work.marks, [&](const auto& mark) { return ask(*mark) == Ending::now; });
  return work.marks.empty() && work.captures.empty() && !work.untold;
}

Ending ProgramWork::ask(Mark& mark) {
  if (mark.reached) return Ending::now;
  // Any stream may capture, without our having been told.
  const BorrowedContext in(*streams_, *mark.made->context);
  DriverCode code = in.entered();
  if (code.ok()) {
    code = ask_event([&] { return streams_->query_event(mark.made->event); });
    mark.reached = code.ok();
  } else {
    mark.reached = is_over(code);
  }
  if (mark.reached) return Ending::now;
  return classify(code) == DriverClass::not_ready ? Ending::later : Ending::unknown;
}

bool ProgramWork::wait(Mark& mark) {
  if (mark.reached) return true;
  const BorrowedContext in(*streams_, *mark.made->context);
  mark.reached = in.entered().ok() ? ask_event([&] { return streams_->wait_event(mark.made->event); }).ok()
                                   : is_over(in.entered());
  return mark.reached;
}

bool ProgramWork::wait() {
  const std::lock_guard lock(mutex_);
  bool ended = true;
  for (Page& page : pages_) {
    for (const auto& mark : page.marks) ended = (wait(*mark) || wait(*mark)) && ended;
    ended = ended && !page.untold;
  }
  return ended;
}

Ending ProgramWork::ending() {
  const std::lock_guard lock(mutex_);
  for (Page& page : pages_) {
    if (page.untold) return Ending::unknown;
    for (; !page.marks.empty(); page.marks.pop_back()) {
      if (const Ending found = ask(*page.marks.back()); found != Ending::now) return found;
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
  bool capturing = false;
  if (const DriverCode code = streams.is_capturing(on, capturing); !code.ok()) return to_error(code);
  // It would become part of the graph, and the wait would spoil the capture.
  if (capturing) return Error{Errc::busy, 0, "the stream captures"};
  const DriverCode code = streams.copy_out(to, from, bytes, on);
  if (code.ok()) return {};
  return to_error(code);
}

}  // namespace penstock
