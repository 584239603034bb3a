// SPDX-License-Identifier: Apache-2.0
// GpuFrameWork: what the maker's two threads do and share. Shared ownership, because a thread in a call that never
// returns outlives the maker.
//
// Invariants, under mutex_:
//  K1 alive + in the making + condemned + dying + unreturned <= capacity.
//  K2 Creations are answered in the order in which they came, each once; all of them when the GPU is given up.
//  K3 A creation waits only for the condemned and the dying, so that alive + waiting <= capacity.
//  K4 Once the GPU is given up no creation starts; what the hung call makes is given back if it ever returns. One frame is
//     made and given back again and again, with longer and longer pauses: when that succeeds creations go on.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "dataplane/base/event_fd.hpp"
#include "dataplane/device/device_memory.hpp"
#include "dataplane/device/gpu/gpu_driver.hpp"
#include "dataplane/device/headroom_source.hpp"
#include "dataplane/device/stats.hpp"

namespace penstock {

// Physical memory and the one descriptor that was exported of it. Given back by the maker alone, never by a destructor:
// both the release and the close are driver calls.
struct GpuFrame {
  MemoryHandle handle{};
  int fd = -1;
};

struct GpuFrameAnswer {
  std::uint64_t tag = 0;
  CreateResult result = CreateResult::created;
  std::int32_t native = 0;
  GpuFrame frame;  // Meant only when created.
};

struct GpuFrameOptions {
  std::uint64_t frame_bytes = 32ull << 20;  // A multiple of the GPU's granularity.
  std::uint64_t capacity_bytes = 0;
  std::chrono::milliseconds call_limit{10'000};  // A driver call that takes longer has hung.
  std::uint32_t refusals_max = 3;                // In a row, before the GPU is given up.
  // A GPU that was given up is tried again after so long; each failure doubles it.
  std::chrono::milliseconds probe_after{1'000}, probe_after_most{60'000};
};

class GpuFrameWork {
 public:
  GpuFrameWork(std::shared_ptr<GpuDriver> driver, const GpuFrameOptions& options,
               std::shared_ptr<HeadroomSource> headroom, EventFd wake)
      : options_(options),
        capacity_(options.capacity_bytes / options.frame_bytes),
        driver_(std::move(driver)),
        headroom_(std::move(headroom)),
        wake_(std::move(wake)) {}

  void want(std::uint64_t tag);
  void take(std::size_t most, std::vector<GpuFrameAnswer>& answers);
  void condemn();
  void bury(GpuFrame frame);
  void quarantine();
  int event_fd() const { return wake_.fd(); }
  std::uint64_t capacity_frames() const { return capacity_; }
  GpuFrameStats stats() const;
  // What the driver is asked for at this moment, "create" or "release"; "" for nothing.
  std::string call_under_way() const;

  void run();
  void watch();
  // True when the worker has ended; false when it hangs and has to be left behind.
  bool stop();

 private:
  using Lock = std::unique_lock<std::mutex>;
  struct Made {
    CreateResult result = CreateResult::created;
    DriverCode code;
    GpuFrame frame;
  };

  bool give_back_one(Lock& lock);
  bool serve_waiting(Lock& lock);
  void wait_for_probe(Lock& lock);
  void probe(Lock& lock);
  void retry_unreturned(Lock& lock);
  void finish(Lock& lock);
  void settle(const Made& made);

  // Without the lock, on the worker.
  Made make();
  Made refused(DriverCode code);
  bool give_back(GpuFrame& frame);
  bool lacks_descriptors() const;

  void begin_call(Lock& lock, const char* what);
  void end_call(Lock& lock);
  void give_up(const char* call, std::int32_t native);
  void answer(GpuFrameAnswer answer);
  std::uint64_t in_existence() const;
  void note(DriverCode code);
  void note_a_loss(DriverCode code);

  const GpuFrameOptions options_;
  const std::uint64_t capacity_;  // Frames.
  const std::shared_ptr<GpuDriver> driver_;
  const std::shared_ptr<HeadroomSource> headroom_;
  const EventFd wake_;

  mutable std::mutex mutex_;
  std::condition_variable work_, watch_, done_;
  // Guarded by mutex_. The counts of stats_ are the truth of K1.
  GpuFrameStats stats_;
  std::deque<std::uint64_t> waiting_;  // Tags; the first is the one in the making.
  std::vector<GpuFrame> dying_;
  std::vector<MemoryHandle> unreturned_;
  std::deque<GpuFrameAnswer> answers_;
  std::uint32_t refusals_ = 0;  // In a row.
  bool for_good_ = false;       // Given up by the caller.
  bool lost_ = false;           // Gone, and not seen to work since.
  std::chrono::milliseconds probe_wait_{0};
  bool short_of_something_ = false;  // A creation failed while frames were dying: it waits until one is gone.
  bool stopping_ = false, finished_ = false, left_behind_ = false;
  // The call under way, for the watchdog.
  bool in_call_ = false, hung_ = false, watchdog_idle_ = false;
  std::uint64_t call_number_ = 0;
  const char* call_ = "";
};

}  // namespace penstock
