// SPDX-License-Identifier: Apache-2.0
// Contexts, their streams and events. Nothing of them is ever freed: a late user is found out instead of crashing
// somewhere. A dead context (a fault of its own work) answers its code for ever; others go on.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "dataplane/base/unique_fd.hpp"
#include "dataplane/device/cuda/cuda_abi.h"
#include "tests/fakes/engine/stream.hpp"

namespace penstock::fake {

class Event {
 public:
  explicit Event(Context& context) : context_(context) {}
  Context& context() { return context_; }

  Point point;             // Guarded by the context's lock. Null: never recorded, thus reached.
  bool destroyed = false;  // Likewise.

 private:
  Context& context_;
};

class Context {
 public:
  // What the context itself costs on the device is `held`.
  Context(int device, UniqueFd held);
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  int device() const { return device_; }
  bool is_dead() const { return code_.load() != 0; }
  CudaResult code() const { return code_.load(); }
  void kill(CudaResult code);  // The first code stays.
  bool is_destroyed() const { return destroyed_.load(); }
  void destroy();

  Stream* make_stream(bool blocking);
  Event* make_event();
  // Null is the null stream. Dies of a stream or event that is unknown, or destroyed, or another context's.
  Stream& stream(CudaStream handle, const char* call);
  Event& event(CudaEvent handle, const char* call);
  void destroy_stream(Stream& stream);
  void destroy_event(Event& event);
  std::uint64_t live_events();
  bool has_event(const void* event);
  // Behind all that precedes it by the rules of the null stream. Answers at once when the stream captures.
  CudaResult push(Stream& stream, std::function<CudaResult()> work, std::vector<Point> after = {},
                  Point* done = nullptr);
  CudaResult record(Event& event, Stream& stream);
  CudaResult wait_event(Stream& stream, Event& event);
  CudaResult query(Event& event);
  CudaResult query(Stream& stream);
  CudaResult synchronize(Event& event);
  CudaResult synchronize(Stream& stream);
  CudaResult synchronize();
  CudaResult begin_capture(Stream& stream, bool global);
  CudaResult end_capture(Stream& stream);
  // Of the null stream nobody can tell while a blocking one captures.
  CudaResult capture_of(Stream& stream, int* status);
  // Of the calling thread. The mode before.
  static int exchange_capture_mode(int mode);

 private:
  CudaResult refuse_in_capture();

  const int device_;
  std::mutex mutex_;
  UniqueFd held_;
  std::vector<std::unique_ptr<Stream>> streams_;  // The first is the null stream.
  std::map<const void*, std::unique_ptr<Event>> events_;
  std::atomic<CudaResult> code_{0};
  std::atomic<bool> destroyed_{false};
};

}  // namespace penstock::fake
