// SPDX-License-Identifier: Apache-2.0
// FrameMaker: the thread that makes host frames ahead of demand and gives the dead ones back.
//
// Invariants, under mutex_:
//  M1 alive + ready + in the making + dying <= capacity. A frame leaves `dying` when its memory is gone.
//  M2 A creation waits only while ready_ is empty, and creations are served in the order in which they came.
//  M3 alive + waiting <= capacity, so that each waiting creation can be served once the dying are gone.
//  M4 No memory is populated before the HeadroomSource has granted it: past the limit of a v1 cgroup the
//  kernel kills.
//
// want, take and bury: the dataplane thread; they hold the mutex for a few moves and never wait for the
// kernel.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "dataplane/base/event_fd.hpp"
#include "dataplane/device/device_memory.hpp"
#include "dataplane/device/headroom_source.hpp"
#include "dataplane/device/host/host_frame.hpp"
#include "dataplane/device/host/host_frame_options.hpp"
#include "dataplane/device/stats.hpp"

namespace penstock {

struct FrameAnswer {
  std::uint64_t tag = 0;
  CreateResult result = CreateResult::created;
  std::int32_t native = 0;
  HostFrame frame{};  // Empty unless created.
};

class FrameMaker {
 public:
  // `headroom` outlives the maker and is asked from the maker's thread.
  FrameMaker(const HostFrameOptions& options, HeadroomSource& headroom, EventFd wake);
  ~FrameMaker();
  FrameMaker(const FrameMaker&) = delete;
  FrameMaker& operator=(const FrameMaker&) = delete;

  // Asks for a frame; answered through take, at once when one is ready.
  void want(std::uint64_t tag);
  // Moves up to `most` answers to the end of `answers`, in the order in which they were given.
  void take(std::size_t most, std::vector<FrameAnswer>& answers);
  // Takes a frame that came from take, to unmap and close it on the maker's thread.
  void bury(HostFrame frame);

  // Whether frames may be made ahead of demand. No: those that are there are given back at once. Any thread; does not
  // allocate.
  void set_making_ahead(bool allowed);

  int event_fd() const { return wake_.fd(); }  // Readable while answers wait.
  std::uint64_t capacity_frames() const { return capacity_; }
  HostFrameStats stats() const;  // Any thread.
  // Until no more frames than that exist, or are being made; false when they do after `limit`. Any thread that may wait.
  bool wait_until_at_most(std::uint64_t frames, Nanoseconds limit);

 private:
  using Lock = std::unique_lock<std::mutex>;

  void run();
  bool serve_waiting(Lock& lock);
  bool bury_one(Lock& lock);
  bool make_ahead(Lock& lock);
  void sleep(Lock& lock);
  void shrink_pool();
  void bury_ready(std::size_t left);

  // Without the lock: asks for headroom of `spare_frames` on top of the frame itself, then makes it.
  FrameAnswer make(std::uint64_t spare_frames);
  void count_made(HostPages pages, bool locked);
  void answer(FrameAnswer answer);
  std::uint64_t in_existence() const;

  const HostFrameOptions options_;
  const std::uint64_t capacity_;  // Frames.
  HeadroomSource& headroom_;
  const EventFd wake_;

  mutable std::mutex mutex_;
  std::condition_variable work_, given_back_;
  // Guarded by mutex_. The counts of stats_ are the truth of M1; `ready` is ready_.size().
  HostFrameStats stats_;
  std::deque<std::uint64_t> waiting_;  // Tags; at most capacity_ (M3).
  std::vector<HostFrame> ready_;
  std::vector<HostFrame> dying_;
  std::deque<FrameAnswer> answers_;  // Bounded by what the caller has asked and not taken.
  std::size_t target_;               // Of ready_; doubled when it runs dry,
  bool grown_ = false;               // once until it is full again: a burst says no more than one request.
  bool ahead_allowed_ = true;
  bool ahead_refused_ = false;  // Making ahead failed; tried again once something changed.
  bool stopping_ = false;

  std::thread thread_;  // Last: it uses all of the above.
};

}  // namespace penstock
