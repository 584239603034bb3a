// SPDX-License-Identifier: Apache-2.0
// ProgramContexts: contexts of one GPU as the program's own calls have shown them, and its captures that unpins told of. All
// tables of a client on that GPU share it. Any thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "dataplane/device/gpu/gpu_driver.hpp"
#include "dataplane/device/gpu/program_streams.hpp"

namespace penstock {

// The calling thread, in a context of the program's until the end of the scope. It spoils no capture meanwhile, and has its
// own context and device back then.
class BorrowedContext {
 public:
  BorrowedContext(ProgramStreams& streams, DriverContext& context);
  BorrowedContext(const BorrowedContext&) = delete;
  BorrowedContext& operator=(const BorrowedContext&) = delete;
  ~BorrowedContext();
  DriverCode entered() const { return entered_; }

 private:
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

  // One capture of one stream. It lasts until the stream is seen without.
  struct SeenCapture {
    StreamHandle stream;
    std::uint64_t serial = 0;
    friend bool operator==(const SeenCapture&, const SeenCapture&) = default;
  };
  SeenCapture note_capture(StreamHandle stream);
  void note_no_capture(StreamHandle stream);
  bool lasts(const SeenCapture& capture) const;
  bool any_capture() const;
  // The program has synchronised, which it can't while something captures.
  void forget_captures();

 private:
  const std::shared_ptr<GpuDriver> driver_;
  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<DriverContext>> known_;  // The last one used comes last.
  std::map<StreamHandle, std::uint64_t> captures_;
  std::uint64_t last_serial_ = 0;
};

}  // namespace penstock
