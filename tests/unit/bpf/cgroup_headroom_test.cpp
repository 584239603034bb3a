// SPDX-License-Identifier: Apache-2.0
#include "bpf/cgroup_headroom.hpp"

#include <atomic>
#include <thread>

#include <gtest/gtest.h>

#include "dataplane/base/units.hpp"
#include "tests/support/literal_tree.hpp"

namespace penstock {
namespace {

using std::chrono::milliseconds;
using test::LiteralTree;

class CgroupHeadroomTest : public testing::Test {
 protected:
  std::unique_ptr<CgroupHeadroom> open() {
    auto headroom = CgroupHeadroom::open(tree_.path(), [this] { return now_.load(); });
    EXPECT_TRUE(headroom.has_value());
    return std::move(*headroom);
  }

  std::atomic<Nanoseconds> now_{milliseconds(5)};
  LiteralTree tree_{{"proc/self/cgroup", "0::/a\n"},
                    {"proc/meminfo", "MemTotal: 1048576 kB\nMemAvailable: 524288 kB\n"},
                    {"sys/fs/cgroup/a/memory.max", "419430400\n"},
                    {"sys/fs/cgroup/a/memory.current", "104857600\n"},
                    {"sys/fs/cgroup/a/memory.stat", "inactive_file 0\nactive_file 0\n"}};
};

TEST_F(CgroupHeadroomTest, IsTheLeastOfCgroupAndMachine) {
  const auto headroom = open();
  EXPECT_EQ(headroom->headroom_bytes(), 300 * mib);
  EXPECT_EQ(headroom->limit_bytes(), 400 * mib);
  tree_.write("proc/meminfo", "MemTotal: 204800 kB\nMemAvailable: 102400 kB\n");
  now_ = milliseconds(20);
  EXPECT_EQ(headroom->headroom_bytes(), 100 * mib);
  EXPECT_EQ(headroom->limit_bytes(), 200 * mib);
}

TEST_F(CgroupHeadroomTest, WithoutALimitTheMachineBinds) {
  tree_.write("sys/fs/cgroup/a/memory.max", "max\n");
  const auto headroom = open();
  EXPECT_EQ(headroom->headroom_bytes(), 512 * mib);
  EXPECT_EQ(headroom->limit_bytes(), 1 * gib);
}

TEST_F(CgroupHeadroomTest, HighBindsBeforeMax) {
  tree_.write("sys/fs/cgroup/a/memory.high", "209715200\n");
  const auto headroom = open();
  EXPECT_EQ(headroom->headroom_bytes(), 100 * mib);
  EXPECT_EQ(headroom->limit_bytes(), 200 * mib);
  EXPECT_EQ(headroom->report().cgroup.max, 400 * mib);
  EXPECT_EQ(headroom->report().cgroup.high, 200 * mib);
}

TEST_F(CgroupHeadroomTest, ReadsAgainOnlyWhenTheReadingIsOld) {
  const auto headroom = open();
  EXPECT_EQ(headroom->headroom_bytes(), 300 * mib);
  tree_.write("sys/fs/cgroup/a/memory.current", "0\n");
  now_ = milliseconds(14);
  EXPECT_EQ(headroom->headroom_bytes(), 300 * mib);
  now_ = milliseconds(15);
  EXPECT_EQ(headroom->headroom_bytes(), 400 * mib);
}

TEST_F(CgroupHeadroomTest, ReadsAgainAtOnceWhenSomethingHasHappened) {
  const auto headroom = open();
  tree_.write("sys/fs/cgroup/a/memory.current", "209715200\n");
  EXPECT_EQ(headroom->headroom_bytes(), 300 * mib);
  headroom->read_anew();
  EXPECT_EQ(headroom->headroom_bytes(), 200 * mib);
  // Once.
  tree_.write("sys/fs/cgroup/a/memory.current", "104857600\n");
  EXPECT_EQ(headroom->headroom_bytes(), 200 * mib);
}

TEST_F(CgroupHeadroomTest, WhatWasTakenComesOffAnOldReadingOnly) {
  const auto headroom = open();
  EXPECT_EQ(headroom->headroom_bytes(), 300 * mib);
  headroom->account(static_cast<std::int64_t>(100 * mib));
  EXPECT_EQ(headroom->headroom_bytes(), 200 * mib);
  headroom->account(static_cast<std::int64_t>(500 * mib));
  EXPECT_EQ(headroom->headroom_bytes(), 0u);
  headroom->account(-static_cast<std::int64_t>(600 * mib));
  EXPECT_EQ(headroom->headroom_bytes(), 300 * mib);
  headroom->account(-static_cast<std::int64_t>(8 * mib));
  EXPECT_EQ(headroom->headroom_bytes(), 308 * mib);
  now_ = milliseconds(15);
  EXPECT_EQ(headroom->headroom_bytes(), 300 * mib);
}

TEST_F(CgroupHeadroomTest, FollowsTheProcessIntoAnotherCgroup) {
  const auto headroom = open();
  EXPECT_EQ(headroom->limit_bytes(), 400 * mib);
  tree_.write("proc/self/cgroup", "0::/b\n");
  tree_.write("sys/fs/cgroup/b/memory.max", "52428800\n");
  tree_.write("sys/fs/cgroup/b/memory.current", "0\n");
  tree_.write("sys/fs/cgroup/b/memory.stat", "");
  now_ = milliseconds(1004);
  EXPECT_EQ(headroom->report().path, "/a");
  now_ = milliseconds(1005);
  EXPECT_EQ(headroom->report().path, "/a");
  now_ = milliseconds(1015);
  EXPECT_EQ(headroom->report().path, "/b");
  EXPECT_EQ(headroom->limit_bytes(), 50 * mib);
}

TEST_F(CgroupHeadroomTest, TakesNoLimitOfACgroupThatALauncherOnlyPassesThrough) {
  tree_.write("sys/fs/cgroup/way/memory.max", "4096\n");
  for (const char* name : {"way", "b"}) {
    tree_.write(std::string("sys/fs/cgroup/") + name + "/memory.current", "0\n");
    tree_.write(std::string("sys/fs/cgroup/") + name + "/memory.stat", "");
  }
  tree_.write("sys/fs/cgroup/b/memory.max", "52428800\n");
  const auto headroom = open();
  const std::uint64_t source = headroom->limit_source();
  tree_.write("proc/self/cgroup", "0::/way\n");
  now_ = milliseconds(1005);
  EXPECT_EQ(headroom->limit_bytes(), 400 * mib);
  tree_.write("proc/self/cgroup", "0::/b\n");
  now_ = milliseconds(1015);
  EXPECT_EQ(headroom->limit_bytes(), 400 * mib);
  EXPECT_EQ(headroom->limit_source(), source);
  now_ = milliseconds(1025);
  EXPECT_EQ(headroom->limit_bytes(), 50 * mib);
  EXPECT_NE(headroom->limit_source(), source);
}

TEST_F(CgroupHeadroomTest, SaysWhichLimitBinds) {
  tree_.write("proc/self/cgroup", "0::/a/b\n");
  tree_.write("sys/fs/cgroup/a/b/memory.max", "max\n");
  tree_.write("sys/fs/cgroup/a/b/memory.current", "0\n");
  tree_.write("sys/fs/cgroup/a/b/memory.stat", "");
  const auto headroom = open();
  const std::uint64_t parents = headroom->limit_source();
  EXPECT_NE(parents, 0u);
  tree_.write("sys/fs/cgroup/a/b/memory.max", "4096\n");
  now_ = milliseconds(15);
  const std::uint64_t own = headroom->limit_source();
  EXPECT_NE(own, parents);
  tree_.write("proc/meminfo", "MemTotal: 1048576 kB\nMemAvailable: 1 kB\n");
  now_ = milliseconds(25);
  EXPECT_EQ(headroom->limit_source(), 0u);
}

TEST_F(CgroupHeadroomTest, AVanishedCgroupIsNoLimitAndSaidOnce) {
  tree_.remove("sys/fs/cgroup/a");
  tree_.write("sys/fs/cgroup/memory.max", "max\n");
  const auto headroom = open();
  for (int poll = 0; poll < 600; ++poll) {
    now_ = now_.load() + std::chrono::seconds(1);
    EXPECT_EQ(headroom->headroom_bytes(), 512 * mib);
  }
  EXPECT_EQ(headroom->warnings().size(), 1u);
  EXPECT_TRUE(headroom->warnings().empty());
}

TEST_F(CgroupHeadroomTest, WithoutMeminfoPhysicalMemoryIsTheBound) {
  tree_.remove("proc/meminfo");
  tree_.write("sys/fs/cgroup/a/memory.max", "max\n");
  const auto headroom = open();
  EXPECT_GT(headroom->headroom_bytes(), 0u);
  EXPECT_LT(headroom->limit_bytes(), 1ull << 60);
  EXPECT_EQ(headroom->warnings().size(), 1u);
}

TEST_F(CgroupHeadroomTest, MayBeAskedFromSeveralThreads) {
  const auto headroom = open();
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      for (int poll = 0; poll < 300; ++poll) {
        now_ = now_.load() + milliseconds(3);
        EXPECT_LE(headroom->headroom_bytes(), 301 * mib);
        headroom->account(1);
        headroom->account(-1);
        EXPECT_TRUE(headroom->warnings().empty());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(CgroupHeadroomOfThisMachine, IsBelowItsMemory) {
  const auto headroom = CgroupHeadroom::open("/", monotonic_now);
  ASSERT_TRUE(headroom.has_value());
  EXPECT_GT((*headroom)->headroom_bytes(), 0u);
  EXPECT_LE((*headroom)->headroom_bytes(), (*headroom)->report().machine_bytes);
  EXPECT_LE((*headroom)->limit_bytes(), (*headroom)->report().machine_bytes);
}

}  // namespace
}  // namespace penstock
