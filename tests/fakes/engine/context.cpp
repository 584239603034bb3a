// SPDX-License-Identifier: Apache-2.0
#include "tests/fakes/engine/context.hpp"

#include <algorithm>
#include <utility>

#include "tests/fakes/engine/die.hpp"

namespace penstock::fake {
namespace {

std::atomic<std::uint64_t> stream_serial{0};
thread_local int thread_capture_mode = cuda_capture_global;

}  // namespace

Context::Context(int device, UniqueFd held) : device_(device), held_(std::move(held)) {
  streams_.push_back(std::make_unique<Stream>(*this, ++stream_serial, true));
}

void Context::kill(CudaResult code) {
  CudaResult alive = 0;
  code_.compare_exchange_strong(alive, code);
}

void Context::destroy() {
  const std::scoped_lock lock(mutex_);
  destroyed_ = true;
  held_.reset();
  for (const auto& stream : streams_) stream->retire();
}

Stream* Context::make_stream(bool blocking) {
  const std::scoped_lock lock(mutex_);
  return streams_.emplace_back(std::make_unique<Stream>(*this, ++stream_serial, blocking)).get();
}

Event* Context::make_event() {
  const std::scoped_lock lock(mutex_);
  auto event = std::make_unique<Event>(*this);
  const void* key = event.get();
  return events_.emplace(key, std::move(event)).first->second.get();
}

Stream& Context::stream(CudaStream handle, const char* call) {
  const std::scoped_lock lock(mutex_);
  if (handle == nullptr) return *streams_.front();
  const auto found = std::find_if(streams_.begin(), streams_.end(), [&](const std::unique_ptr<Stream>& each) {
    return each.get() == reinterpret_cast<Stream*>(handle);
  });
  if (found == streams_.end()) die("%s: the stream is unknown to the current context", call);
  if ((*found)->is_retired()) die("%s: the stream was destroyed", call);
  return **found;
}

Event& Context::event(CudaEvent handle, const char* call) {
  const std::scoped_lock lock(mutex_);
  const auto found = events_.find(handle);
  if (found == events_.end()) die("%s: the event is unknown to the current context", call);
  if (found->second->destroyed) die("%s: the event was destroyed", call);
  return *found->second;
}

void Context::destroy_stream(Stream& stream) { stream.retire(); }

void Context::destroy_event(Event& event) {
  const std::scoped_lock lock(mutex_);
  event.destroyed = true;
  event.point = nullptr;
}

std::uint64_t Context::live_events() {
  if (is_destroyed()) return 0;
  const std::scoped_lock lock(mutex_);
  return static_cast<std::uint64_t>(
      std::count_if(events_.begin(), events_.end(), [](const auto& one) { return !one.second->destroyed; }));
}

bool Context::has_event(const void* event) {
  const std::scoped_lock lock(mutex_);
  return events_.contains(event);
}

CudaResult Context::push(Stream& stream, std::function<CudaResult()> work, std::vector<Point> after,
                         Point* done) {
  if (is_dead()) return code();
  const std::scoped_lock lock(mutex_);
  if (stream.capture != Capture::none) {
    // Graphs are not built here; a copy or launch of ours has no business in a client's capture.
    stream.capture = Capture::invalidated;
    return cuda_error_stream_capture_unsupported;
  }
  const bool is_null = &stream == streams_.front().get();
  for (const auto& other : streams_) {
    const bool orders = is_null ? other->is_blocking() : stream.is_blocking() && other == streams_.front();
    if (!orders || other.get() == &stream) continue;
    if (other->capture != Capture::none) {
      other->capture = Capture::invalidated;
      return cuda_error_stream_capture_implicit;
    }
    if (Point tail = other->tail()) after.push_back(std::move(tail));
  }
  Point point = stream.push(std::move(work), std::move(after));
  if (done != nullptr) *done = std::move(point);
  return cuda_success;
}

int Context::exchange_capture_mode(int mode) { return std::exchange(thread_capture_mode, mode); }

// Calls that may not be made while a stream captures in the global mode, whichever thread makes them, unless it has said
// that it knows what it does.
CudaResult Context::refuse_in_capture() {
  if (thread_capture_mode == cuda_capture_relaxed) return cuda_success;
  const std::scoped_lock lock(mutex_);
  for (const auto& stream : streams_) {
    if (stream->capture == Capture::none || !stream->capture_is_global) continue;
    stream->capture = Capture::invalidated;
    return cuda_error_stream_capture_unsupported;
  }
  return cuda_success;
}

CudaResult Context::record(Event& event, Stream& stream) {
  Point point;
  if (const CudaResult bad = push(
          stream, [] { return cuda_success; }, {}, &point))
    return bad;
  const std::scoped_lock lock(mutex_);
  event.point = std::move(point);
  return cuda_success;
}

CudaResult Context::wait_event(Stream& stream, Event& event) {
  std::vector<Point> after;
  {
    const std::scoped_lock lock(mutex_);
    if (event.point) after.push_back(event.point);
  }
  return push(
      stream, [] { return cuda_success; }, std::move(after));
}

CudaResult Context::query(Event& event) {
  if (is_dead()) return code();
  if (const CudaResult bad = refuse_in_capture()) return bad;
  const std::scoped_lock lock(mutex_);
  if (event.point && !event.point->is_done()) return cuda_error_not_ready;
  return code();
}

CudaResult Context::query(Stream& stream) {
  if (is_dead()) return code();
  if (const CudaResult bad = refuse_in_capture()) return bad;
  const Point tail = stream.tail();
  if (tail && !tail->is_done()) return cuda_error_not_ready;
  return code();
}

CudaResult Context::synchronize(Event& event) {
  if (const CudaResult bad = refuse_in_capture()) return bad;
  Point point;
  {
    const std::scoped_lock lock(mutex_);
    point = event.point;
  }
  if (point) point->wait();
  return code();
}

CudaResult Context::synchronize(Stream& stream) {
  if (const CudaResult bad = refuse_in_capture()) return bad;
  if (const Point tail = stream.tail()) tail->wait();
  return code();
}

CudaResult Context::synchronize() {
  if (is_dead()) return code();
  std::vector<Point> tails;
  {
    const std::scoped_lock lock(mutex_);
    for (const auto& stream : streams_) {
      if (stream->capture != Capture::none) {
        stream->capture = Capture::invalidated;
        return cuda_error_stream_capture_unsupported;
      }
      if (Point tail = stream->tail()) tails.push_back(std::move(tail));
    }
  }
  for (const Point& tail : tails) tail->wait();
  return code();
}

CudaResult Context::begin_capture(Stream& stream, bool global) {
  const std::scoped_lock lock(mutex_);
  if (&stream == streams_.front().get()) return cuda_error_stream_capture_unsupported;
  if (stream.capture != Capture::none) return cuda_error_illegal_state;
  stream.capture = Capture::active;
  stream.capture_is_global = global;
  return cuda_success;
}

CudaResult Context::end_capture(Stream& stream) {
  const std::scoped_lock lock(mutex_);
  const Capture was = stream.capture;
  stream.capture = Capture::none;
  if (was == Capture::none) return cuda_error_illegal_state;
  return was == Capture::active ? cuda_success : cuda_error_stream_capture_invalidated;
}

CudaResult Context::capture_of(Stream& stream, int* status) {
  const std::scoped_lock lock(mutex_);
  const bool is_null = &stream == streams_.front().get();
  const bool blocked = is_null && std::any_of(streams_.begin() + 1, streams_.end(), [](const auto& other) {
                         return other->is_blocking() && other->capture != Capture::none;
                       });
  if (blocked) return cuda_error_stream_capture_implicit;
  *status = static_cast<int>(stream.capture);
  return cuda_success;
}

}  // namespace penstock::fake
