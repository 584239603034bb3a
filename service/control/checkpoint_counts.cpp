// SPDX-License-Identifier: Apache-2.0
#include "service/control/checkpoint_counts.hpp"

#include <algorithm>

#include "dataplane/base/check.hpp"

namespace penstock {
namespace {

// now - first + earlier; never below `earlier`.
void rebase(std::uint64_t& now, std::uint64_t first, std::uint64_t earlier) {
  now = now - std::min(now, first) + earlier;
}

void rebase(FileTraffic& now, const FileTraffic& first, const FileTraffic& earlier) {
  rebase(now.added_bytes, first.added_bytes, earlier.added_bytes);
  for (std::size_t cause = 0; cause < removal_causes; ++cause)
    rebase(now.removed_bytes[cause], first.removed_bytes[cause], earlier.removed_bytes[cause]);
  rebase(now.refaulted_bytes, first.refaulted_bytes, earlier.refaulted_bytes);
}

void rebase(FaultTraffic& now, const FaultTraffic& first, const FaultTraffic& earlier) {
  rebase(now.major_faults, first.major_faults, earlier.major_faults);
  rebase(now.stall_ns, first.stall_ns, earlier.stall_ns);
}

}  // namespace

void CheckpointCounts::begin(const std::string& checkpoint, const FileSample& now) {
  Count& count = counts_[checkpoint];
  if (count.ended != 0) --ended_;
  count.ended = 0;
  count.first_traffic = now.traffic.value_or(FileTraffic{});
  count.first_faults = now.faults.value_or(FaultTraffic{});
}

void CheckpointCounts::end(const std::string& checkpoint, const FileSample& last) {
  const auto found = counts_.find(checkpoint);
  CHECK(found != counts_.end() && found->second.ended == 0);
  FileSample whole = last;
  apply(checkpoint, whole);
  if (whole.traffic) found->second.earlier_traffic = *whole.traffic;
  if (whole.faults) found->second.earlier_faults = *whole.faults;
  found->second.ended = ++ends_;
  if (++ended_ <= ended_max) return;
  const auto order = [](const auto& entry) {
    return entry.second.ended == 0 ? UINT64_MAX : entry.second.ended;
  };
  counts_.erase(std::ranges::min_element(counts_, {}, order));
  --ended_;
}

void CheckpointCounts::apply(const std::string& checkpoint, FileSample& sample) const {
  const auto found = counts_.find(checkpoint);
  CHECK(found != counts_.end());
  const Count& count = found->second;
  if (sample.traffic) rebase(*sample.traffic, count.first_traffic, count.earlier_traffic);
  if (sample.faults) rebase(*sample.faults, count.first_faults, count.earlier_faults);
}

}  // namespace penstock
