// SPDX-License-Identifier: Apache-2.0
// ProgramStreams: what a library inside somebody's program may do with the program's own streams. It makes no context,
// changes none, and never loads a driver. All calls act in the calling thread's context as the program left it.
#pragma once

#include <memory>

#include "dataplane/base/result.hpp"
#include "dataplane/device/gpu/gpu_driver.hpp"

namespace penstock {

class ProgramStreams {
 public:
  virtual ~ProgramStreams() = default;
  ProgramStreams(const ProgramStreams&) = delete;
  ProgramStreams& operator=(const ProgramStreams&) = delete;

  virtual DriverCode make_event(EventHandle& event) = 0;
  virtual DriverCode destroy_event(EventHandle event) = 0;
  virtual DriverCode record_event(EventHandle event, StreamHandle stream) = 0;
  // While something captures only in RelaxedCaptures: it would invalidate the capture.
  virtual DriverCode query_event(EventHandle event) = 0;
  virtual DriverCode wait_event(EventHandle event) = 0;
  virtual DriverCode is_capturing(StreamHandle stream, bool& capturing) = 0;
  // Queues a copy to host memory behind the stream's work, and waits for both.
  virtual DriverCode copy_out(void* to, DeviceAddress from, std::uint64_t bytes, StreamHandle stream) = 0;
  // Waits for everything that was queued in the calling thread's context. For work of that thread's program alone.
  virtual DriverCode synchronize() = 0;

  // What the calling thread's calls do to captures of streams, of whichever thread: in the mode "relaxed" none is
  // invalidated by a call that merely might. Answers the mode before. -1: the driver is too old to have modes.
  virtual int relax_captures() = 0;
  virtual void set_capture_mode(int mode) = 0;

  // HIP's memory calls change the calling thread's device: it is put back. -1: there is none.
  virtual int current_device() = 0;
  virtual void set_current_device(int device) = 0;

  // HIP keeps what a call of the thread answered, for whoever asks next. 0: no failure.
  virtual int last_error() = 0;
  virtual void clear_last_error() = 0;

 protected:
  ProgramStreams() = default;
};

// What our calls answer until the end of the scope is not the thread's last error afterwards, as the program would take it
// for its own. One that was there before stays, unless the driver has put ours in its place (decision 32 of service/client).
class OwnErrors {
 public:
  explicit OwnErrors(ProgramStreams& streams) : streams_(streams), before_(streams.last_error()) {}
  OwnErrors(const OwnErrors&) = delete;
  OwnErrors& operator=(const OwnErrors&) = delete;
  ~OwnErrors() {
    if (before_ == 0 && streams_.last_error() != 0) streams_.clear_last_error();
  }

 private:
  ProgramStreams& streams_;
  const int before_;
};

// The calling thread spoils no capture until the end of the scope.
class RelaxedCaptures {
 public:
  explicit RelaxedCaptures(ProgramStreams& streams) : streams_(streams), mode_(streams.relax_captures()) {}
  RelaxedCaptures(const RelaxedCaptures&) = delete;
  RelaxedCaptures& operator=(const RelaxedCaptures&) = delete;
  ~RelaxedCaptures() {
    if (mode_ >= 0) streams_.set_capture_mode(mode_);
  }

 private:
  ProgramStreams& streams_;
  const int mode_;
};

// Errc::not_found when the program has not loaded the vendor's driver, Errc::unsupported when that lacks a function.
Result<std::unique_ptr<ProgramStreams>> open_cuda_streams();
Result<std::unique_ptr<ProgramStreams>> open_hip_streams();
Result<std::unique_ptr<ProgramStreams>> open_program_streams(GpuVendor vendor);

}  // namespace penstock
