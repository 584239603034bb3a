// SPDX-License-Identifier: Apache-2.0
#include "service/control/reclaim_sums.hpp"

#include <vector>

#include <gtest/gtest.h>

namespace penstock {
namespace {

constexpr std::size_t memcg = 1;

CgroupSample cgroup(std::uint64_t id, std::uint64_t bytes, std::uint64_t kills = 0) {
  CgroupSample sample;
  sample.id = id;
  sample.reclaim[memcg] = {.episodes = bytes / 10, .ns = 2 * bytes, .bytes = bytes, .longest_ns = bytes};
  sample.oom_kills = kills;
  return sample;
}

struct Sums {
  explicit Sums(const ReclaimSums::Sums& of)
      : service(of[0].reclaim[memcg].bytes),
        others(of[1].reclaim[memcg].bytes),
        other_kills(of[1].oom_kills) {}
  std::uint64_t service, others, other_kills;
};

TEST(ReclaimSums, TellTheServicesCgroupFromAllOthers) {
  ReclaimSums sums;
  const std::vector<CgroupSample> samples{cgroup(0, 5), cgroup(7, 100, 1), cgroup(8, 20, 2)};
  const ReclaimSums::Sums& now = sums.advance(samples, 7);
  EXPECT_EQ(now[0].reclaim[memcg].bytes, 100u);
  EXPECT_EQ(now[0].reclaim[memcg].ns, 200u);
  EXPECT_EQ(now[0].reclaim[memcg].longest_ns, 100u);
  EXPECT_EQ(now[0].oom_kills, 1u);
  EXPECT_EQ(now[1].reclaim[memcg].bytes, 25u);
  EXPECT_EQ(now[1].reclaim[memcg].longest_ns, 20u);
  EXPECT_EQ(now[1].oom_kills, 2u);
}

TEST(ReclaimSums, StayWhenTheServiceIsPutIntoAnotherCgroup) {
  ReclaimSums sums;
  sums.advance(std::vector{cgroup(7, 100), cgroup(8, 20)}, 7);
  const Sums moved(sums.advance(std::vector{cgroup(7, 100), cgroup(8, 30)}, 8));
  EXPECT_EQ(moved.service, 100u);
  EXPECT_EQ(moved.others, 30u);
  const Sums later(sums.advance(std::vector{cgroup(7, 110), cgroup(8, 70)}, 8));
  EXPECT_EQ(later.service, 140u);
  EXPECT_EQ(later.others, 40u);
}

TEST(ReclaimSums, StayWhenACgroupIsRemovedAlsoTheOneThatWasTheServices) {
  ReclaimSums sums;
  sums.advance(std::vector{cgroup(0, 0), cgroup(7, 100), cgroup(8, 20, 1)}, 7);
  const Sums removed(sums.advance(std::vector{cgroup(0, 20, 1), cgroup(7, 100)}, 7));
  EXPECT_EQ(removed.others, 20u);
  EXPECT_EQ(removed.other_kills, 1u);
  // A reading in the midst of a removal: in neither place yet.
  EXPECT_EQ(Sums(sums.advance(std::vector{cgroup(0, 0), cgroup(7, 100)}, 7)).others, 20u);
  const Sums gone(sums.advance(std::vector{cgroup(0, 120, 1)}, 0));
  EXPECT_EQ(gone.service, 100u);
  EXPECT_EQ(gone.others, 20u);
}

TEST(ReclaimSums, OutsideOfAnyCgroupAllIsOthers) {
  ReclaimSums sums;
  const Sums now(sums.advance(std::vector{cgroup(0, 5), cgroup(7, 100)}, 0));
  EXPECT_EQ(now.service, 0u);
  EXPECT_EQ(now.others, 105u);
}

}  // namespace
}  // namespace penstock
