// SPDX-License-Identifier: Apache-2.0
// The memory controller of cgroup v2, as the service reads it: limits of ancestors, room, events, pressure.
#include <csignal>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bpf/cgroup_headroom.hpp"
#include "bpf/cgroup_use.hpp"
#include "bpf/pressure_edge.hpp"
#include "dataplane/base/check.hpp"
#include "dataplane/base/units.hpp"
#include "tests/integration/probes/probed_file.hpp"
#include "tests/integration/vm/guest_cgroup.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/random_file.hpp"
#include "tests/support/temporary_folder.hpp"

namespace penstock {
namespace {

using test::GuestCgroup;

std::string in_mib(const std::optional<std::uint64_t>& bytes) {
  return bytes ? std::to_string(*bytes / mib) : "none";
}

std::string limits() {
  const auto headroom = CgroupHeadroom::open();
  CHECK(headroom);
  const HeadroomReport report = (*headroom)->report();
  return fmt::format(
      "v2={} hybrid={} limit={} max={} high={} warnings={}", report.version == CgroupVersion::v2,
      report.hybrid,
      (*headroom)->limit_bytes() == report.machine_bytes ? "machine" : in_mib((*headroom)->limit_bytes()),
      in_mib(report.cgroup.max), in_mib(report.cgroup.high), (*headroom)->warnings().size());
}

TEST(CgroupV2, TheTightestOfAllAncestorsBindsAndHighIsTheEarlierLine) {
  const GuestCgroup grandparent("grandparent");
  const GuestCgroup parent("parent", &grandparent);
  const GuestCgroup own("own", &parent);
  EXPECT_EQ(own.run(limits), "v2=true hybrid=false limit=machine max=none high=none warnings=0");
  own.write("memory.max", 256 * mib);
  EXPECT_EQ(own.run(limits), "v2=true hybrid=false limit=256 max=256 high=none warnings=0");
  grandparent.write("memory.max", 128 * mib);
  EXPECT_EQ(own.run(limits), "v2=true hybrid=false limit=128 max=128 high=none warnings=0");
  parent.write("memory.high", 96 * mib);
  EXPECT_EQ(own.run(limits), "v2=true hybrid=false limit=96 max=128 high=96 warnings=0");
  grandparent.write("memory.max", "max");
  own.write("memory.max", "max");
  EXPECT_EQ(own.run(limits), "v2=true hybrid=false limit=96 max=none high=96 warnings=0");
}

std::uint64_t headroom_now() {
  const auto headroom = CgroupHeadroom::open();
  CHECK(headroom);
  return (*headroom)->headroom_bytes() / mib;
}

TEST(CaseC03, UnderV2FileCacheIsRoomAndSharedMemoryIsNot) {
  const test::TemporaryFolder folder;
  test::write_durably(folder / "file", test::random_bytes(40 * mib, 3));
  test::drop_from_page_cache(folder / "file");
  const GuestCgroup cgroup("room");
  cgroup.write("memory.max", 64 * mib);
  const std::string told = cgroup.run([&] {
    if (!test::read_in_pieces(folder / "file")) return std::string("can't read");
    // Nothing is counted exactly before the kernel gathers what its processors know.
    const std::uint64_t cache = cgroup.figure("memory.stat", "file") / mib;
    const std::uint64_t cached = headroom_now();
    const UniqueFd shared(::memfd_create("shared", MFD_CLOEXEC));
    CHECK(::fallocate(shared.get(), 0, 0, 24 * mib) == 0);
    const std::uint64_t less = headroom_now();
    return fmt::format("cache={} cached={} less={}", cache >= 36, cached >= 54, less >= 32 && less <= 40);
  });
  EXPECT_EQ(told, "cache=true cached=true less=true");
  EXPECT_EQ(cgroup.figure("memory.events", "oom_kill"), 0u);
}

// Until it is destroyed.
class Child {
 public:
  explicit Child(const std::function<void()>& body) : process_(::fork()) {
    CHECK(process_ >= 0);
    if (process_ != 0) return;
    body();
    ::_exit(0);
  }
  ~Child() {
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

 private:
  pid_t process_;
};

TEST(CgroupV2, PressureAndEventsAreThoseOfTheCgroupThatSuffers) {
  const test::TemporaryFolder folder;
  test::write_durably(folder / "file", test::random_bytes(16 * mib, 3));
  test::drop_from_page_cache(folder / "file");
  const GuestCgroup suffers("suffers"), rests("rests");
  suffers.write("memory.max", 6 * mib);
  constexpr PressureBound bound{.kind = PressureKind::some,
                                .stall = std::chrono::milliseconds(20),
                                .window = std::chrono::milliseconds(500)};
  Result<PressureEdge> edge = PressureEdge::open(suffers.directory(), "memory.pressure", bound);
  Result<PressureEdge> quiet = PressureEdge::open(rests.directory(), "memory.pressure", bound);
  ASSERT_TRUE(edge && quiet);
  EXPECT_TRUE(edge->armed()) << edge->why();
  CgroupUseFiles files(CgroupVersion::v2);
  EXPECT_EQ(files.read_events(suffers.directory()).limit_hits, 0u);
  {
    const Child thrasher([&] {
      suffers.enter();
      while (test::read_in_pieces(folder / "file")) {
      }
    });
    EXPECT_TRUE(eventually([&] { return edge->look(); }));
  }
  EXPECT_FALSE(quiet->look());
  const CgroupEvents events = files.read_events(suffers.directory());
  EXPECT_GT(events.limit_hits.value_or(0), 0u);
  EXPECT_EQ(events.high_hits, 0u);
  EXPECT_EQ(events.oom_kills, 0u);
  suffers.write("memory.max", "max");
  suffers.write("memory.high", 3 * mib);
  EXPECT_EQ(suffers.run([&] { return std::string(test::read_in_pieces(folder / "file") ? "read" : "not"); }),
            "read");
  EXPECT_GT(files.read_events(suffers.directory()).high_hits.value_or(0), 0u);
}

}  // namespace
}  // namespace penstock
