// SPDX-License-Identifier: Apache-2.0
// Watchdog over a device whose thread the test plays.
#include "service/control/watchdog.hpp"

#include <optional>

#include <gtest/gtest.h>

#include "dataplane/base/check.hpp"
#include "dataplane/base/units.hpp"
#include "service/control/service.hpp"
#include "tests/support/open_mailbox.hpp"

namespace penstock {
namespace {

class WatchdogTest : public ::testing::Test {
 protected:
  WatchdogTest() {
    service.add_device({.description = {.id = "host",
                                        .kind = "host",
                                        .limits = {.frame_bytes = mib, .capacity_bytes = 16 * mib}},
                        .mail = mail.get(),
                        .news = news.get(),
                        .stats = &stats});
    watchdog.emplace(context, service.state(), std::chrono::milliseconds(1), [this] { ++alive; });
  }
  // The device's thread has its turn.
  void answer() {
    std::vector<PagerMail> batch;
    mail->drain(batch);
    for (const PagerMail& one : batch) {
      const auto* question = std::get_if<mail::ScrubTable>(&one);
      if (question == nullptr) continue;
      EXPECT_FALSE(question->any_table);
      EXPECT_EQ(raw(question->table), 0u);
      CHECK(news->try_push(RequestDone{.request = question->request, .result = TicketResult::failed}));
    }
  }
  void run_for(Nanoseconds span) {
    context.restart();
    context.run_for(span);
  }

  boost::asio::io_context context{1};
  Config config;
  std::unique_ptr<Mailbox<PagerMail>> mail = test::open_mailbox<PagerMail>();
  std::unique_ptr<Mailbox<PagerNews>> news = test::open_mailbox<PagerNews>();
  PagerStats stats;
  Service service{context, config};
  int alive = 0;
  std::optional<Watchdog> watchdog;
};

TEST_F(WatchdogTest, SaysAliveWhileTheDevicesThreadAnswersAndFallsSilentWhenItStops) {
  watchdog->start();
  EXPECT_EQ(alive, 1);
  for (int i = 0; i < 1000 && alive < 4; ++i) {
    answer();
    run_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(alive, 4);
  run_for(std::chrono::milliseconds(3));  // Whatever it had answered before is heard.
  const int before = alive;
  run_for(std::chrono::milliseconds(50));
  EXPECT_LE(alive, before + 1);
  for (int i = 0; i < 1000 && alive < before + 3; ++i) {
    answer();
    run_for(std::chrono::milliseconds(1));
  }
  EXPECT_GE(alive, before + 3);
}

TEST_F(WatchdogTest, ALookThatIsDueWhenItEndsIsNotMade) {
  watchdog->start();
  answer();
  const int before = alive;
  boost::asio::steady_timer end(context, std::chrono::steady_clock::time_point{});
  end.async_wait([this](const boost::system::error_code&) { watchdog.reset(); });
  const auto due = std::chrono::steady_clock::now() + std::chrono::milliseconds(2);
  while (std::chrono::steady_clock::now() < due) {
  }
  context.restart();
  context.poll();
  EXPECT_FALSE(watchdog);
  EXPECT_EQ(alive, before);
}

}  // namespace
}  // namespace penstock
