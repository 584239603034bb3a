// SPDX-License-Identifier: Apache-2.0
// When the reader of the service's cgroup wants to be opened anew, and which pressures it looks for.
#include "service/control/cgroup_reader.hpp"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/support/literal_tree.hpp"

namespace penstock {
namespace {

constexpr std::string_view waited = "some avg10=1.50 avg60=0.00 avg300=0.00 total=10000000\n";
constexpr std::string_view hybrid_mounts =
    "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
    "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";

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
  static std::vector<PressureScope> watched(CgroupReader& reader) {
    std::vector<PressureScope> scopes;
    for (const auto& [scope, edge] : reader.edges()) scopes.push_back(scope);
    return scopes;
  }
  static KernelStats read(CgroupReader& reader) {
    KernelStats stats;
    reader.read(stats);
    return stats;
  }

  test::LiteralTree tree_;
  Warnings warnings_;
  const UniqueFd alive_{static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0))};
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
}

// The file is there, and says how long tasks of the whole machine waited.
TEST_F(CgroupReaderTest, TheRootsPressureIsTheMachinesAndNobodyElses) {
  tree_.write("proc/pressure/memory", waited);
  tree_.write("sys/fs/cgroup/memory.pressure", waited);
  join("/");
  CgroupReader reader(tree_.path());
  const KernelStats stats = read(reader);
  EXPECT_TRUE(of(stats, PressureScope::machine).pressure);
  EXPECT_FALSE(of(stats, PressureScope::service).looked_for);
  EXPECT_FALSE(of(stats, PressureScope::service).pressure);
  EXPECT_FALSE(of(stats, PressureScope::limit).looked_for);
  EXPECT_EQ(watched(reader), std::vector{PressureScope::machine});
  EXPECT_FALSE(reader.is_outdated());
}

// As where memory is v1's, and nobody put the processes into cgroups of v2.
TEST_F(CgroupReaderTest, NeitherServiceNorClientHasThePressureOfAHybridsRoot) {
  tree_.write("proc/self/mountinfo", hybrid_mounts);
  tree_.write("proc/self/cgroup", "4:memory:/service\n0::/\n");
  tree_.write("proc/77/cgroup", "4:memory:/client\n0::/\n");
  for (const std::string_view name : {"service", "client"}) {
    tree_.write("sys/fs/cgroup/memory/" + std::string(name) + "/memory.limit_in_bytes", "20971520\n");
    tree_.write("sys/fs/cgroup/memory/" + std::string(name) + "/memory.usage_in_bytes", "4096\n");
  }
  tree_.write("sys/fs/cgroup/unified/memory.pressure", waited);
  CgroupReader reader(tree_.path());
  const KernelStats stats = read(reader);
  ASSERT_TRUE(stats.cgroup);
  EXPECT_EQ(stats.cgroup->limits.max, 20971520u);
  EXPECT_FALSE(of(stats, PressureScope::service).looked_for);
  EXPECT_TRUE(watched(reader).empty());
  const std::optional<ClientCgroupFigures> client = reader.read_client({77, alive_.get()}, warnings_);
  ASSERT_TRUE(client);
  EXPECT_FALSE(client->pressure);
}

TEST_F(CgroupReaderTest, HitsAreThoseOfTheLimitThatIsShownAndKillsTheCgroupsOwn) {
  tree_.write("proc/self/mountinfo", hybrid_mounts);
  tree_.write("proc/self/cgroup", "4:memory:/parent/service\n");
  tree_.write("proc/77/cgroup", "4:memory:/parent/client\n");
  tree_.write("sys/fs/cgroup/memory/parent/memory.limit_in_bytes", "20971520\n");
  tree_.write("sys/fs/cgroup/memory/parent/memory.failcnt", "510\n");
  tree_.write("sys/fs/cgroup/memory/parent/memory.oom_control", "oom_kill 9\n");
  for (const std::string name : {"service", "client"}) {
    tree_.write("sys/fs/cgroup/memory/parent/" + name + "/memory.limit_in_bytes", "9223372036854771712\n");
    tree_.write("sys/fs/cgroup/memory/parent/" + name + "/memory.failcnt", "0\n");
    tree_.write("sys/fs/cgroup/memory/parent/" + name + "/memory.oom_control", "oom_kill 2\n");
  }
  CgroupReader reader(tree_.path());
  const KernelStats stats = read(reader);
  ASSERT_TRUE(stats.cgroup);
  const std::optional<ClientCgroupFigures> client = reader.read_client({77, alive_.get()}, warnings_);
  ASSERT_TRUE(client);
  for (const CgroupFigures& figures : {*stats.cgroup, client->cgroup}) {
    EXPECT_EQ(figures.limits.max, 20971520u);
    EXPECT_EQ(figures.events.limit_hits, 510u);
    EXPECT_EQ(figures.events.high_hits, std::nullopt);
    EXPECT_EQ(figures.events.oom_kills, 2u);
  }
}

TEST_F(CgroupReaderTest, TheRootOfV1IsTheMachineAndNobodysCgroup) {
  tree_.write("proc/self/mountinfo", hybrid_mounts);
  tree_.write("proc/self/cgroup", "4:memory:/\n");
  tree_.write("proc/77/cgroup", "4:memory:/client\n");
  tree_.write("proc/78/cgroup", "4:memory:/\n");
  for (const std::string name : {"", "client/"}) {
    tree_.write("sys/fs/cgroup/memory/" + name + "memory.limit_in_bytes", "9223372036854771712\n");
    tree_.write("sys/fs/cgroup/memory/" + name + "memory.failcnt", "7\n");
    tree_.write("sys/fs/cgroup/memory/" + name + "memory.stat", "total_rss 4096\n");
  }
  // As the root of a container's, which is mounted there.
  EXPECT_TRUE(read(*std::make_unique<CgroupReader>(tree_.path())).cgroup);
  tree_.write("sys/fs/cgroup/memory/release_agent", "\n");
  CgroupReader reader(tree_.path());
  EXPECT_FALSE(read(reader).cgroup);
  EXPECT_EQ(reader.cgroup_id(), 0u);
  EXPECT_TRUE(reader.read_client({77, alive_.get()}, warnings_));
  tree_.write("proc/self/cgroup", "4:memory:/client\n");
  CgroupReader moved(tree_.path());
  EXPECT_TRUE(read(moved).cgroup);
  EXPECT_FALSE(moved.read_client({78, alive_.get()}, warnings_));
}

// Else the watch would be made anew with each turn, and no window of stalls would ever end.
TEST_F(CgroupReaderTest, StaysWithOneOfTwoLimitsThatTakeTurns) {
  for (const std::string name : {"sys/fs/cgroup/a/", "sys/fs/cgroup/a/b/"}) {
    tree_.write(name + "memory.max", "1048576\n");
    tree_.write(name + "memory.stat", "");
    tree_.write(name + "memory.pressure", waited);
  }
  join("/a/b");
  const auto use = [this](std::string_view outer, std::string_view inner) {
    tree_.write("sys/fs/cgroup/a/memory.current", outer);
    tree_.write("sys/fs/cgroup/a/b/memory.current", inner);
  };
  use("1000000\n", "0\n");
  CgroupReader reader(tree_.path());
  EXPECT_EQ(watched(reader), (std::vector{PressureScope::service, PressureScope::limit}));
  for (int turn = 0; turn < 20; ++turn) {
    use("1000000\n", turn % 2 == 0 ? "1000001\n" : "0\n");
    read(reader);
    EXPECT_FALSE(reader.is_outdated());
  }
  use("0\n", "1000000\n");
  read(reader);
  for (int look = 1; look < CgroupReader::looks_elsewhere; ++look) EXPECT_FALSE(reader.is_outdated());
  EXPECT_TRUE(reader.is_outdated());
}

// A cgroup namespace calls its own root "/" too.
TEST_F(CgroupReaderTest, TheRootOfANamespaceHasAPressureOfItsOwn) {
  tree_.write("sys/fs/cgroup/cgroup.events", "populated 1\nfrozen 0\n");
  tree_.write("sys/fs/cgroup/memory.pressure", waited);
  join("/");
  CgroupReader reader(tree_.path());
  EXPECT_TRUE(of(read(reader), PressureScope::service).pressure);
  EXPECT_EQ(watched(reader), std::vector{PressureScope::service});
}

}  // namespace
}  // namespace penstock
