// SPDX-License-Identifier: Apache-2.0
#include "service/control/checkpoint_counts.hpp"

#include <gtest/gtest.h>

namespace penstock {
namespace {

FileSample counted(std::uint64_t bytes) {
  FileTraffic traffic;
  traffic.added_bytes = 2 * bytes;
  traffic.removed_bytes.fill(bytes);
  traffic.refaulted_bytes = bytes;
  return {.level = ProbeLevel::traced_and_faults,
          .resident_bytes = 7,
          .traffic = traffic,
          .faults = FaultTraffic{.major_faults = bytes, .stall_ns = 3 * bytes},
          .unlinked = false};
}

void expect_counted(const CheckpointCounts& counts, const std::string& id, FileSample of_file,
                    std::uint64_t bytes) {
  counts.apply(id, of_file);
  EXPECT_EQ(of_file.resident_bytes, 7u);
  EXPECT_EQ(of_file.traffic->added_bytes, 2 * bytes);
  for (const std::uint64_t removed : of_file.traffic->removed_bytes) EXPECT_EQ(removed, bytes);
  EXPECT_EQ(of_file.traffic->refaulted_bytes, bytes);
  EXPECT_EQ(of_file.faults->major_faults, bytes);
  EXPECT_EQ(of_file.faults->stall_ns, 3 * bytes);
}

// The same inode with other content: one file to the probes.
TEST(CheckpointCounts, ASecondCheckpointOfAFileDoesNotInheritWhatTheFirstCounted) {
  CheckpointCounts counts;
  counts.begin("first", counted(0));
  counts.begin("second", counted(100));
  expect_counted(counts, "first", counted(130), 130);
  expect_counted(counts, "second", counted(130), 30);
}

TEST(CheckpointCounts, OneThatIsOpenedAgainGoesOnWithoutWhatHappenedMeanwhile) {
  CheckpointCounts counts;
  counts.begin("one", counted(0));
  counts.end("one", counted(50));
  counts.begin("one", counted(0));  // Its place was given anew.
  expect_counted(counts, "one", counted(0), 50);
  expect_counted(counts, "one", counted(5), 55);
  counts.end("one", counted(5));
  counts.begin("one", counted(80));  // Another checkpoint of the file had kept the place.
  expect_counted(counts, "one", counted(81), 56);
}

TEST(CheckpointCounts, RemembersAsManyThatEndedAsItMay) {
  CheckpointCounts counts;
  counts.begin("open", counted(0));
  for (std::size_t i = 0; i <= CheckpointCounts::ended_max; ++i) {
    counts.begin(std::to_string(i), counted(0));
    counts.end(std::to_string(i), counted(9));
  }
  for (const char* id : {"0", "1"}) counts.begin(id, counted(0));
  expect_counted(counts, "0", counted(1), 1);
  expect_counted(counts, "1", counted(1), 10);
  expect_counted(counts, "open", counted(1), 1);
}

}  // namespace
}  // namespace penstock
