// SPDX-License-Identifier: Apache-2.0
// When the reader of the service's cgroup wants to be opened anew, and which pressures it looks for.
#include "service/control/cgroup_reader.hpp"

#include <gtest/gtest.h>

#include "tests/support/literal_tree.hpp"

namespace penstock {
namespace {

constexpr std::string_view waited = "some avg10=1.50 avg60=0.00 avg300=0.00 total=10000000\n";

const PressureFigures& of(const KernelStats& stats, PressureScope scope) {
  return stats.pressure[static_cast<std::size_t>(scope)];
}

class CgroupReaderTest : public testing::Test {
 protected:
  CgroupReaderTest() {
    tree_.write("proc/self/mountinfo", "1 0 0:1 / /sys/fs/cgroup rw - cgroup2 none rw\n");
    tree_.write("sys/fs/cgroup/a/memory.stat", "anon 4096\n");
    join("/a");
  }
  void join(std::string_view cgroup) const {
    tree_.write("proc/self/cgroup", "0::" + std::string(cgroup) + "\n");
  }
  static KernelStats read(CgroupReader& reader) {
    KernelStats stats;
    reader.read(stats);
    return stats;
  }

  test::LiteralTree tree_;
};

TEST_F(CgroupReaderTest, IsOutdatedOnceAPressureCanBeReadThatHasNoEdge) {
  CgroupReader reader(tree_.path());
  EXPECT_TRUE(reader.edges().empty());
  read(reader);
  EXPECT_FALSE(reader.is_outdated());
  tree_.write("proc/pressure/memory", waited);
  EXPECT_TRUE(of(read(reader), PressureScope::machine).pressure);
  EXPECT_TRUE(reader.is_outdated());
}

TEST_F(CgroupReaderTest, IsOutdatedOnceTheCgroupHasAFileOfPressure) {
  tree_.write("proc/pressure/memory", waited);
  CgroupReader reader(tree_.path());
  reader.edges();
  read(reader);
  EXPECT_FALSE(reader.is_outdated());
  tree_.write("sys/fs/cgroup/a/memory.pressure", waited);
  EXPECT_TRUE(reader.is_outdated());
}

// Else it would be opened anew once a second for ever.
TEST_F(CgroupReaderTest, StaysWhereAPressureHasNoLineThatCouldBeWatched) {
  tree_.write("proc/pressure/memory", "full avg10=0.00 avg60=0.00 avg300=0.00 total=4000000\n");
  tree_.make_folder("sys/fs/cgroup/a/memory.pressure");
  CgroupReader reader(tree_.path());
  EXPECT_TRUE(reader.edges().empty());
  // The text of a trigger replaced it: a plain file keeps what is written.
  tree_.write("proc/pressure/memory", "full avg10=0.00 avg60=0.00 avg300=0.00 total=4000000\n");
  EXPECT_TRUE(of(read(reader), PressureScope::machine).pressure);
  EXPECT_FALSE(reader.is_outdated());
}

TEST_F(CgroupReaderTest, SaysWhichPressuresItLooksFor) {
  CgroupReader reader(tree_.path());
  const KernelStats stats = read(reader);
  EXPECT_TRUE(of(stats, PressureScope::machine).looked_for);
  EXPECT_TRUE(of(stats, PressureScope::service).looked_for);
  EXPECT_FALSE(of(stats, PressureScope::limit).looked_for);
  EXPECT_FALSE(of(stats, PressureScope::service).pressure);

  // The root has no such file.
  join("/");
  CgroupReader at_root(tree_.path());
  EXPECT_FALSE(of(read(at_root), PressureScope::service).looked_for);
}

}  // namespace
}  // namespace penstock
