// SPDX-License-Identifier: Apache-2.0
// What the governor reads of a cgroup under pressure costs no allocation: there may be nothing to allocate from.
#include <string>

#include <gtest/gtest.h>

#include "bpf/cgroup_headroom.hpp"
#include "bpf/pressure_edge.hpp"
#include "dataplane/base/check.hpp"
#include "dataplane/base/event_fd.hpp"
#include "tests/support/literal_tree.hpp"
#include "tests/unit/control/counted_allocations.hpp"

namespace penstock {
namespace {

constexpr const char* stalls = "some avg10=0.00 avg60=0.00 avg300=0.00 total=1\n";

template <class Call>
int allocations_of(Call call) {
  const auto silent = EventFd::create();
  CHECK(silent);
  test::count_allocations_until_readable(silent->fd());
  call();
  test::count_allocations_until_readable(-1);
  return test::counted_allocations();
}

struct Layout {
  const char* name;
  std::string membership, mount, folder, limit, usage;
};

class RoomOfTheGovernor : public testing::TestWithParam<Layout> {};

TEST_P(RoomOfTheGovernor, IsReadWithoutAnAllocation) {
  const Layout& layout = GetParam();
  const std::string folder = layout.folder + "/a-path-that-is-longer-than-any-short-string/b/";
  const std::string path = layout.membership + "/a-path-that-is-longer-than-any-short-string/b\n";
  const test::LiteralTree tree(
      {{"proc/self/cgroup", path},
       {"proc/self/mountinfo", layout.mount},
       {"proc/meminfo", "MemTotal: 1048576 kB\nMemAvailable: 524288 kB\n"},
       {folder + layout.limit, "419430400\n"},
       {folder + layout.usage, "104857600\n"},
       {folder + "memory.stat",
        "inactive_file 1\nactive_file 1\ntotal_inactive_file 4096\ntotal_active_file 0\n"}});
  Nanoseconds now = std::chrono::hours(1);
  const auto headroom = CgroupHeadroom::open(tree.path(), [&now] { return now; });
  ASSERT_TRUE(headroom);
  const auto look = [&] {
    now += std::chrono::seconds(2);  // The membership is read again, too.
    (*headroom)->read_anew();
    return (*headroom)->headroom_bytes() + (*headroom)->limit_bytes();
  };
  const std::uint64_t before = look();
  EXPECT_GT(before, 700u << 20);
  std::uint64_t after = 0;
  EXPECT_EQ(allocations_of([&] { after = look(); }), 0);
  EXPECT_EQ(after, before);
}

INSTANTIATE_TEST_SUITE_P(
    Hierarchies, RoomOfTheGovernor,
    testing::Values(Layout{"v1", "4:memory:", "1 0 0:1 / /sys/fs/cgroup/memory rw - cgroup none rw,memory\n",
                           "sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes"},
                    Layout{"v2", "0::", "1 0 0:1 / /sys/fs/cgroup rw - cgroup2 none rw\n", "sys/fs/cgroup",
                           "memory.max", "memory.current"}),
    [](const auto& one) { return std::string(one.param.name); });

TEST(StallsOfTheGovernor, AreReadWithoutAnAllocation) {
  const test::LiteralTree tree({{"pressure", stalls}});
  Result<PressureEdge> edge = PressureEdge::polled(tree.root().get(), "pressure", {});
  ASSERT_TRUE(edge);
  EXPECT_EQ(allocations_of([&] {
              EXPECT_FALSE(edge->look());
              EXPECT_TRUE(edge->read());
            }),
            0);
}

}  // namespace
}  // namespace penstock
