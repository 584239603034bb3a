// SPDX-License-Identifier: Apache-2.0
// A ProbeSet whose samples a test writes down. Hints may be sent from any thread; the rest belongs to one.
#pragma once

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "bpf/probe_set.hpp"
#include "dataplane/base/check.hpp"
#include "dataplane/base/event_fd.hpp"

namespace penstock::test {

class ScriptedProbes final : public ProbeSet {
 public:
  ScriptedProbes() : hinted_(*EventFd::create()) {}

  // What is answered; the test changes them as it goes. Files are numbered as they are tracked.
  std::vector<ProbeReport> reports;
  ProbeLevel best = ProbeLevel::traced_and_faults;
  FileSample fresh;  // Of a file when it begins to be tracked.
  std::map<TrackedFileId, FileSample> files;
  std::map<TrackedFileId, std::vector<ExtentSample>> file_extents;
  std::uint64_t bytes_of_extents = 16 * 1024 * 1024;
  std::vector<CgroupSample> cgroups;
  MachineSample machine;

  void send(const Hint& hint) {
    const std::lock_guard lock(mutex_);
    hints_.push_back(hint);
    hinted_.signal();
  }

  std::vector<ProbeReport> report() override { return reports; }
  ProbeLevel level() const override { return best; }
  Result<Tracking> track(int, std::shared_ptr<const void>) override {
    const TrackedFileId file{next_++};
    files[file] = fresh;
    files[file].level = best;
    return Tracking{file, best, std::nullopt, {}};
  }
  void untrack(TrackedFileId file) override {
    CHECK(files.erase(file) == 1);
    file_extents.erase(file);
  }
  FileSample sample(TrackedFileId file) override { return files.at(file); }
  std::size_t sample_extents(TrackedFileId file, std::span<ExtentSample> into) override {
    const std::vector<ExtentSample>& all = file_extents[file];
    const std::size_t count = std::min(into.size(), all.size());
    std::copy_n(all.begin(), count, into.begin());
    return count;
  }
  std::uint64_t extent_bytes(TrackedFileId) const override { return bytes_of_extents; }
  std::size_t extents(TrackedFileId file) const override {
    const auto found = file_extents.find(file);
    return found == file_extents.end() ? 0 : found->second.size();
  }
  std::vector<CgroupSample> sample_cgroups() override { return cgroups; }
  MachineSample sample_machine() override { return machine; }
  void reconcile() override {}
  void look_for_unlinked() override {}
  int hint_fd() const override { return hinted_.fd(); }
  void consume_hints(const std::function<void(const Hint&)>& take) override {
    hinted_.consume();
    std::vector<Hint> taken;
    {
      const std::lock_guard lock(mutex_);
      taken = std::exchange(hints_, {});
    }
    for (const Hint& hint : taken) take(hint);
  }

 private:
  EventFd hinted_;
  std::mutex mutex_;
  std::vector<Hint> hints_;  // Guarded by mutex_.
  std::uint32_t next_ = 0;
};

}  // namespace penstock::test
