// SPDX-License-Identifier: Apache-2.0
// When the kernel reclaimed and when a frame's memory was given back, each the first time in a round, seen at the seams
// of the probes and of the headroom.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "bpf/probe_set.hpp"
#include "dataplane/base/clock.hpp"
#include "dataplane/device/headroom_source.hpp"

namespace penstock::bench {

struct RoundTimes {
  std::optional<Nanoseconds> event;       // The kernel's stamp of the first hint of a reclaim in the cgroup,
  std::optional<Nanoseconds> heard;       // when the service had it in hand,
  std::optional<Nanoseconds> given_back;  // and when the first frame's memory was gone.
};

// Any thread.
class RoundClock {
 public:
  explicit RoundClock(std::uint64_t cgroup) : cgroup_(cgroup) {}

  void begin();
  void hear(const Hint& hint);
  void give_back();
  // Until memory was given back; whether it was, within 20 s.
  bool wait_for_memory();
  // The same of the kernel's event, within 0.2 s: a reclaim is told of at once, or there was none.
  bool wait_for_event();
  RoundTimes times() const;

 private:
  const std::uint64_t cgroup_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Nanoseconds began_{};  // Guarded by mutex_, as is what follows.
  RoundTimes times_;
};

class StampedRoom final : public HeadroomSource {
 public:
  StampedRoom(HeadroomSource& below, RoundClock& clock) : below_(below), clock_(clock) {}
  std::uint64_t headroom_bytes() override { return below_.headroom_bytes(); }
  std::uint64_t limit_bytes() override { return below_.limit_bytes(); }
  void account(std::int64_t bytes) override {
    if (bytes < 0) clock_.give_back();
    below_.account(bytes);
  }
  void read_anew() override { below_.read_anew(); }

 private:
  HeadroomSource& below_;
  RoundClock& clock_;
};

class StampedProbes final : public ProbeSet {
 public:
  StampedProbes(std::unique_ptr<ProbeSet> below, RoundClock& clock)
      : below_(std::move(below)), clock_(clock) {}
  std::vector<ProbeReport> report() override { return below_->report(); }
  ProbeLevel level() const override { return below_->level(); }
  Result<Tracking> track(int fd, std::shared_ptr<const void> owner) override {
    return below_->track(fd, std::move(owner));
  }
  void untrack(TrackedFileId file) override { below_->untrack(file); }
  FileSample sample(TrackedFileId file) override { return below_->sample(file); }
  std::size_t sample_extents(TrackedFileId file, std::span<ExtentSample> into) override {
    return below_->sample_extents(file, into);
  }
  std::uint64_t extent_bytes(TrackedFileId file) const override { return below_->extent_bytes(file); }
  std::size_t extents(TrackedFileId file) const override { return below_->extents(file); }
  std::vector<CgroupSample> sample_cgroups() override { return below_->sample_cgroups(); }
  MachineSample sample_machine() override { return below_->sample_machine(); }
  void reconcile() override { below_->reconcile(); }
  void look_for_unlinked() override { below_->look_for_unlinked(); }
  int hint_fd() const override { return below_->hint_fd(); }
  void consume_hints(const std::function<void(const Hint&)>& take) override {
    below_->consume_hints([&](const Hint& hint) {
      clock_.hear(hint);
      take(hint);
    });
  }

 private:
  const std::unique_ptr<ProbeSet> below_;
  RoundClock& clock_;
};

}  // namespace penstock::bench
