// SPDX-License-Identifier: Apache-2.0
// Governor over a service whose host device the test plays: its mailbox, its frames, and the room that is left.
#include "service/control/governor.hpp"

#include <vector>

#include <gtest/gtest.h>
#include <boost/asio/io_context.hpp>

#include "dataplane/base/check.hpp"
#include "service/control/service.hpp"
#include "tests/support/open_mailbox.hpp"
#include "tests/unit/control/counted_allocations.hpp"

namespace penstock {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::uint64_t capacity = 1 * gib;

struct PlayedRoom final : HeadroomSource {
  std::uint64_t room = 2 * gib;
  int read_anew_times = 0;
  std::uint64_t headroom_bytes() override { return room; }
  void read_anew() override { ++read_anew_times; }
  std::uint64_t limit_bytes() override { return 4 * gib; }  // Lines: 512 and 768 MiB.
};

EventFd open_alarm() {
  auto alarm = EventFd::create();
  CHECK(alarm);
  return *std::move(alarm);
}

class GovernorTest : public ::testing::Test {
 protected:
  GovernorTest() {
    service.add_device({.description = {.id = "host",
                                        .kind = "host",
                                        .limits = {.frame_bytes = 8 * mib, .capacity_bytes = capacity}},
                        .mail = mail.get(),
                        .news = news.get(),
                        .stats = &stats});
    service.set_host_memory(room, 512 * mib);
    Governor::Options options;
    options.policy.buffers_max_bytes = 512 * mib;
    HostFrames host{.frame_bytes = [this] { return frame_bytes; },
                    .set_making_ahead = [this](bool allowed) { making_ahead = allowed; }};
    governor.emplace(context, service.state(), room, alarm, std::vector{std::move(host)}, options);
    budgets();
  }

  // Those that the pager was sent since the last call; all are answered.
  std::vector<std::uint64_t> budgets() {
    std::vector<PagerMail> batch;
    mail->drain(batch);
    std::vector<std::uint64_t> found;
    for (const PagerMail& one : batch) {
      const auto* budget = std::get_if<mail::ChangeBudget>(&one);
      if (budget == nullptr) continue;
      found.push_back(budget->bytes);
      CHECK(news->try_push(RequestDone{.request = budget->request}));
    }
    context.restart();
    context.poll();
    return found;
  }
  using Budgets = std::vector<std::uint64_t>;

  boost::asio::io_context context{1};
  Config config;
  std::unique_ptr<Mailbox<PagerMail>> mail = test::open_mailbox<PagerMail>();
  std::unique_ptr<Mailbox<PagerNews>> news = test::open_mailbox<PagerNews>();
  PagerStats stats;
  PlayedRoom room;
  EventFd alarm = open_alarm();
  Service service{context, config};
  std::uint64_t frame_bytes = capacity;
  bool making_ahead = true;
  std::optional<Governor> governor;
  Nanoseconds now = seconds(1000);
};

TEST_F(GovernorTest, SendsThePagerASmallerBudgetAndTakesItsTimeToRaiseIt) {
  governor->look(now);
  EXPECT_EQ(budgets(), Budgets{});
  room.room = 500 * mib;
  governor->look(now += milliseconds(5));
  EXPECT_EQ(budgets(), Budgets{capacity - 268 * mib});
  EXPECT_FALSE(making_ahead);
  EXPECT_EQ(service.state().pressure->level, PressureLevel::some);
  EXPECT_EQ(service.state().host_buffers->budget_bytes(), 0u);
  room.room = 3 * gib;
  frame_bytes = capacity - 268 * mib;
  for (int i = 0; i < 4; ++i) governor->look(now += milliseconds(250));
  EXPECT_EQ(budgets(), Budgets{});
  for (int i = 0; i < 60; ++i) governor->look(now += milliseconds(250));
  const Budgets risen = budgets();
  EXPECT_GT(risen.size(), 8u);
  EXPECT_EQ(risen.back(), capacity);
  EXPECT_TRUE(making_ahead);
  EXPECT_EQ(service.state().host_buffers->budget_bytes(), 512 * mib);
}

TEST_F(GovernorTest, AllocatesNothingBeforeThePagerHasItsMail) {
  for (int i = 0; i < 3; ++i) {
    room.room = 2 * gib;
    frame_bytes = capacity;
    for (int rise = 0; rise < 400; ++rise) governor->look(now += milliseconds(250));
    budgets();
    room.room = 300 * mib;
    test::count_allocations_until_readable(mail->fd());
    governor->look(now += milliseconds(5));
    test::count_allocations_until_readable(-1);
    EXPECT_EQ(test::counted_allocations(), 0);
    EXPECT_EQ(budgets().size(), 1u);
  }
}

TEST_F(GovernorTest, LooksTheMoreOftenTheLessIsLeft) {
  EXPECT_EQ(governor->look(now), now + milliseconds(250));
  room.room = (512 + 410) * mib;
  now += seconds(1);
  const Nanoseconds next = governor->look(now);
  EXPECT_GT(next, now + milliseconds(95));
  EXPECT_LT(next, now + milliseconds(105));
  room.room = 10 * mib;
  EXPECT_EQ(governor->look(now), now + milliseconds(5));
}

TEST_F(GovernorTest, LooksAtOnceWhenTheAlarmIsRaised) {
  governor->start();
  budgets();
  room.room = 400 * mib;
  alarm.signal();
  EXPECT_EQ(budgets(), Budgets{});     // Polls once; the mail is for the next.
  EXPECT_EQ(room.read_anew_times, 1);  // A reading from before the alarm says nothing of it.
  EXPECT_EQ(budgets(), Budgets{capacity - 368 * mib});
}

TEST_F(GovernorTest, LeavesWhatIsPinnedAndExplainsWhatItDid) {
  stats.pinned_bytes = 900 * mib;
  room.room = 100 * mib;
  governor->look(now);
  EXPECT_EQ(budgets(), Budgets{900 * mib});
  EXPECT_EQ(service.state().pressure->excess_bytes, (668 - 124) * mib);
  const std::string log = service.state().decisions.to_json("host", {});
  EXPECT_NE(log.find("\"kind\":\"budget\""), std::string::npos) << log;
  EXPECT_NE(log.find("\"reason\":\"room\""), std::string::npos) << log;
  EXPECT_NE(log.find("\"kind\":\"pressure\""), std::string::npos) << log;
}

TEST(ResidentExtents, AreThoseOfResidentPagesJoined) {
  const TableSource source{.layout = PageLayout::identity(10 * mib, 2 * mib), .files = {}};
  const auto words = PageWords::create(5);
  ASSERT_TRUE(words);
  for (const std::uint32_t page : {0u, 1u, 4u}) (*words)->store(page, Residency::resident, Generation{1});
  (*words)->store(2, Residency::loading, Generation{1});
  const std::vector<Extent> extents = resident_extents(source, **words, 0);
  ASSERT_EQ(extents.size(), 2u);
  EXPECT_EQ(extents[0].offset, 0u);
  EXPECT_EQ(extents[0].length, 4 * mib);
  EXPECT_EQ(extents[1].offset, 8 * mib);
  EXPECT_EQ(extents[1].length, 2 * mib);
  EXPECT_TRUE(resident_extents(source, **words, 1).empty());
}

}  // namespace
}  // namespace penstock
