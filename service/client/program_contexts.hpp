// SPDX-License-Identifier: Apache-2.0
// ProgramContexts: contexts of one GPU as the program's own calls have shown them, and its captures that unpins told of. All
// tables of a client on that GPU share it. Any thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <tuple>
#include <vector>

#include "dataplane/device/gpu/gpu_driver.hpp"
#include "dataplane/device/gpu/program_streams.hpp"

namespace penstock {

class WorkMark;

// The calling thread, in a context of the program's until the end of the scope. It spoils no capture meanwhile, and has its
// own context, device and last error back then.
class BorrowedContext {
 public:
  BorrowedContext(ProgramStreams& streams, DriverContext& context);
  BorrowedContext(const BorrowedContext&) = delete;
  BorrowedContext& operator=(const BorrowedContext&) = delete;
  ~BorrowedContext();
  DriverCode entered() const { return entered_; }

 private:
  const OwnErrors errors_;  // The first, so that it ends last.
  ProgramStreams& streams_;
  DriverContext& context_;
  const RelaxedCaptures relaxed_;
  const int device_;
  const bool own_;
  const DriverCode entered_;
};

class ProgramContexts {
 public:
  explicit ProgramContexts(std::shared_ptr<GpuDriver> driver) : driver_(std::move(driver)) {}

  // Whose default stream the calling thread means: its own context's. Where that is another GPU's, or there is none, the last
  // one that is known; else the GPU's primary one. Null: nothing of this process has one, as far as one can see.
  std::shared_ptr<DriverContext> find();
  // It is over.
  void forget(const std::shared_ptr<DriverContext>& context);

  // One capture of one stream, by the context and thread that the handle means. What was queued on the stream before it may
  // still run: unpins during a capture leave no mark, and the first one behind it leaves one for all that held the capture.
  class SeenCapture;
  std::shared_ptr<SeenCapture> note_capture(const std::shared_ptr<DriverContext>& context,
                                            StreamHandle stream);
  // The stream was seen without one. `behind` is behind all that was queued on it before.
  void note_no_capture(const std::shared_ptr<DriverContext>& context, StreamHandle stream,
                       const std::shared_ptr<WorkMark>& behind);
  // Nothing runs in it any more.
  void note_death(const DriverContext& context);
  // Nothing: it lasts, as far as was seen. Else the mark behind it; null where its work has ended.
  std::optional<std::shared_ptr<WorkMark>> end_of(const SeenCapture& capture) const;
  bool any_capture() const;
  // The program has synchronised, which it can't while something captures.
  void forget_captures();

 private:
  const std::shared_ptr<GpuDriver> driver_;
  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<DriverContext>> known_;  // The last one used comes last.
  // One handle is a stream of each thread.
  using StreamKey = std::tuple<std::shared_ptr<DriverContext>, StreamHandle, std::thread::id>;
  static StreamKey key_of(const std::shared_ptr<DriverContext>& context, StreamHandle stream);
  std::map<StreamKey, std::shared_ptr<SeenCapture>> captures_;  // Those that last.
};

}  // namespace penstock
