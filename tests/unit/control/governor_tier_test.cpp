// SPDX-License-Identifier: Apache-2.0
// Governor on a node whose devices are GPUs: a real pinned host tier is all that can be given back.
#include <atomic>
#include <future>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <boost/asio/io_context.hpp>

#include "dataplane/base/check.hpp"
#include "service/control/governor.hpp"
#include "service/control/kernel_watch.hpp"
#include "service/control/service.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/hanging_client.hpp"
#include "tests/support/literal_tree.hpp"
#include "tests/support/scripted_probes.hpp"
#include "tests/unit/control/counted_allocations.hpp"

namespace penstock {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::uint64_t page = 64 * kib;
constexpr std::uint64_t copies = 64 * page;
constexpr std::uint32_t filled = 48;

// Asked by the tier's thread, too.
struct PlayedRoom final : HeadroomSource {
  std::atomic<std::uint64_t> room = 2 * gib;
  std::uint64_t headroom_bytes() override { return room; }
  std::uint64_t limit_bytes() override { return 4 * gib; }  // Lines: 512 and 768 MiB.
};

EventFd open_alarm() {
  auto alarm = EventFd::create();
  CHECK(alarm);
  return *std::move(alarm);
}

std::shared_ptr<HostTier> make_tier(HeadroomSource& room) {
  auto tier = HostTier::make(
      {.page_bytes = page, .capacity_bytes = copies, .budget_bytes = copies, .pages = HostPages::small},
      room);
  CHECK(tier);
  return *std::move(tier);
}

class GovernorOfATier : public ::testing::Test {
 protected:
  GovernorOfATier() {
    service.set_host_memory(room, 512 * mib);
    service.set_host_tier(tier);
    tier->announce(file);
    user = tier->add_user().value();
    Governor::Options options;
    options.policy.copies_max_bytes = copies;
    options.policy.buffers_max_bytes = 512 * mib;
    governor.emplace(context, service.state(), room, alarm, std::vector<HostFrames>{}, options);
    governor->look(now);
  }

  // Every second page stays mapped by the user's writer.
  void fill() {
    const TierFile known = tier->find(file).value();
    for (std::uint32_t index = 0; index < filled; ++index) {
      HostTier::Place place;
      ASSERT_TRUE(eventually([&] {
        tier->collect(user);
        place = tier->ask(user, {known, index});
        return place.way == TierBook::Way::fill;
      })) << index;
      tier->filled(place.frame, true);
      if (index % 2 == 0) tier->let_go(place.frame, user);
    }
    tier->collect(user);
  }
  // As a pipeline does that is called. Returns how many frames it mapped.
  std::size_t let_go() {
    std::vector<TierFrame> called;
    tier->collect(user);
    tier->take_calls(user, called);
    for (const TierFrame frame : called) tier->let_go(frame, user);
    return called.size();
  }
  void recover() {
    room.room = 3 * gib;
    for (int i = 0; i < 400 && tier->stats().budget_bytes < copies; ++i)
      governor->look(now += milliseconds(250));
    ASSERT_EQ(tier->stats().budget_bytes, copies);
  }
  // A look, and how often it allocated until the tier had called its users.
  int allocations_of_a_look(Nanoseconds span) {
    test::count_allocations_until_readable(tier->user_fd(user));
    governor->look(now += span);
    test::count_allocations_until_readable(-1);
    return test::counted_allocations();
  }

  boost::asio::io_context context{1};
  Config config;
  PlayedRoom room;
  EventFd alarm = open_alarm();
  std::shared_ptr<HostTier> tier = make_tier(room);
  const FileIdentity file{.device = 1, .inode = 1, .bytes = 64 * page};
  TierUser user = 0;
  Service service{context, config};
  std::optional<Governor> governor;
  Nanoseconds now = seconds(1000);
};

TEST_F(GovernorOfATier, TakesItsMemoryAtOnceAndRaisesItsBudgetSlowly) {
  ASSERT_NO_FATAL_FAILURE(fill());
  EXPECT_EQ(tier->stats().used_bytes, filled * page);
  room.room = 500 * mib;
  governor->look(now += milliseconds(5));
  EXPECT_EQ(tier->stats().budget_bytes, 0u);
  EXPECT_EQ(let_go(), filled / 2);
  EXPECT_TRUE(tier->wait_until_at_most(0, seconds(10)));
  room.room = 3 * gib;
  governor->look(now += milliseconds(250));
  EXPECT_EQ(tier->stats().budget_bytes, 0u);
  recover();
}

// Two clients that ask at a time were each given the same room, and the kernel killed the service.
TEST_F(GovernorOfATier, ABufferThatIsBeingMadeIsNoRoomForAnother) {
  constexpr std::uint64_t half = 16 * mib;
  std::promise<void> go;
  const std::shared_future<void> gone = go.get_future().share();
  for (int thread = 0; thread < 2; ++thread) {  // All that make buffers.
    service.state().opener.run<int>(
        "nothing", [gone]() -> Outcome<int> { return gone.wait(), 0; }, [](Outcome<int>) {});
  }
  HostBuffers& buffers = *service.state().host_buffers;
  const SessionId session{7};
  buffers.open(session, 0);
  std::vector<std::string> answers;
  const auto ask = [&] {
    buffers.create(session, half, [&](const Outcome<std::shared_ptr<HostBuffers::Made>>& made) {
      answers.push_back(made ? "made" : std::string(failure_kind_name(made.error().kind)));
    });
  };
  room.room = gib;  // High line: 768 MiB.
  governor->look(now += milliseconds(250));
  ask();
  governor->look(now += milliseconds(250));
  EXPECT_EQ(service.state().pressure->room_bytes, gib - half);
  EXPECT_EQ(buffers.budget_bytes(), 256 * mib);
  room.room = 2 * half - 1;
  ask();
  EXPECT_EQ(answers, std::vector<std::string>{"headroom"});
  go.set_value();
  EXPECT_TRUE(eventually([&] {
    context.restart();
    context.poll();
    return answers.size() == 2;
  }));
  EXPECT_EQ(answers.back(), "made");
  EXPECT_EQ(buffers.missing_bytes(), 0u);
  buffers.close(session);
}

TEST_F(GovernorOfATier, AllocatesNothingBeforeTheTierHasCalledItsUsers) {
  for (int i = 0; i < 3; ++i) {
    ASSERT_NO_FATAL_FAILURE(fill());
    room.room = 300 * mib;
    EXPECT_EQ(allocations_of_a_look(milliseconds(5)), 0);
    EXPECT_EQ(let_go(), filled / 2);
    EXPECT_TRUE(tier->wait_until_at_most(0, seconds(10)));
    recover();
  }
}

TEST_F(GovernorOfATier, AnswersStallsWithAStepAndAllocatesNothingWhileAClientIsSlowToRead) {
  constexpr const char* file_of_stalls = "sys/fs/cgroup/a/memory.pressure";
  test::LiteralTree tree({{"proc/self/cgroup", "0::/a\n"},
                          {"proc/self/mountinfo", "1 0 0:1 / /sys/fs/cgroup rw - cgroup2 none rw\n"},
                          {file_of_stalls, test::stalls_text(0)}});
  ASSERT_NO_FATAL_FAILURE(fill());
  test::HangingClient client;
  KernelWatch::Options options;
  options.root = tree.path();
  options.read_process = [&](const ProcessRef&) { return client.read(); };
  KernelWatch watch(std::make_unique<test::ScriptedProbes>(), options);
  client.be_followed_by(watch);
  service.set_kernel_watch(watch);
  int allocations = -1;
  std::int64_t waited = 0;
  // Again and again: the text of a trigger may replace what is written, since this is a plain file.
  EXPECT_TRUE(eventually([&] {
    tree.write(file_of_stalls, test::stalls_text(waited += 2'000'000));
    allocations = allocations_of_a_look(seconds(2));
    return tier->stats().budget_bytes < filled * page;
  }));
  client.let_go();
  EXPECT_EQ(allocations, 0);
  EXPECT_EQ(tier->stats().budget_bytes, filled * page - copies / 16);
  EXPECT_NE(service.state().decisions.to_json("host", {}).find("\"reason\":\"stall\""), std::string::npos);
}

}  // namespace
}  // namespace penstock
