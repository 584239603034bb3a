// SPDX-License-Identifier: Apache-2.0
#include "service/client/work_marks.hpp"

#include <algorithm>
#include <utility>

namespace penstock {
namespace {

constexpr std::int32_t invalid_context = 201, invalid_handle = 400;  // The same numbers on HIP.

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

bool is_over(DriverCode code) {
  return code.native == invalid_handle || classify(code) == DriverClass::context_dead;
}

EventPool::~EventPool() {
  for (const ContextEvent& made : spare_) {
    const BorrowedContext in(*streams_, *made.context);
    if (in.entered().ok()) static_cast<void>(insist([&] { return streams_->destroy_event(made.event); }));
  }
}

DriverCode EventPool::record(const std::shared_ptr<DriverContext>& context, StreamHandle stream,
                             std::shared_ptr<WorkMark>& made) {
  const auto record_on = [&](EventHandle event) {
    const DriverCode code = streams_->record_event(event, stream);
    if (code.ok())
      made = std::make_shared<WorkMark>(shared_from_this(), ContextEvent{context, event});
    else
      static_cast<void>(insist([&] { return streams_->destroy_event(event); }));
    return code;
  };
  if (const auto spare = take(*context)) {
    if (const DriverCode code = record_on(*spare); code.ok()) return code;
  }
  EventHandle event{};
  const DriverCode code = streams_->make_event(event);
  return code.ok() ? record_on(event) : code;
}

std::optional<EventHandle> EventPool::take(const DriverContext& context) {
  const std::lock_guard lock(mutex_);
  const auto spare =
      std::ranges::find_if(spare_, [&](const auto& one) { return one.context.get() == &context; });
  if (spare == spare_.end()) return std::nullopt;
  const EventHandle event = spare->event;
  spare_.erase(spare);
  return event;
}

void EventPool::give_back(const ContextEvent& event) {
  const std::lock_guard lock(mutex_);
  spare_.push_back(event);
}

Ending WorkMark::ask() {
  if (reached_) return Ending::now;
  // Any stream may capture, without our having been told.
  ProgramStreams& streams = *pool_->streams_;
  const BorrowedContext in(streams, *made_.context);
  DriverCode code = in.entered();
  if (code.ok()) {
    code = ask_event([&] { return streams.query_event(made_.event); });
    reached_ = code.ok();
  } else {
    reached_ = is_over(code);
  }
  if (reached_) return Ending::now;
  return classify(code) == DriverClass::not_ready ? Ending::later : Ending::unknown;
}

bool WorkMark::wait() {
  if (reached_) return true;
  ProgramStreams& streams = *pool_->streams_;
  const BorrowedContext in(streams, *made_.context);
  reached_ = in.entered().ok() ? ask_event([&] { return streams.wait_event(made_.event); }).ok()
                               : is_over(in.entered());
  return reached_;
}

}  // namespace penstock
