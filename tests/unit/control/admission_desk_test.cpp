// SPDX-License-Identifier: Apache-2.0
// AdmissionDesk over real mailboxes, whose other end the test plays.
#include "service/control/admission_desk.hpp"

#include <optional>

#include <gtest/gtest.h>
#include <boost/asio/io_context.hpp>

#include "dataplane/base/check.hpp"
#include "dataplane/base/units.hpp"
#include "tests/support/open_mailbox.hpp"

namespace penstock {
namespace {

constexpr SessionId client{1};

class AdmissionDeskTest : public ::testing::Test {
 protected:
  AdmissionDeskTest() { desk.open(client, 0); }

  void ask(std::uint64_t work_bytes) {
    desk.ask(client, 1,
             {.work_bytes = work_bytes,
              .minimum_work_bytes = work_bytes,
              .deadline = monotonic_now() + std::chrono::seconds(20)},
             [this](Outcome<AdmissionDesk::Granted> outcome) { answer = std::move(outcome); });
  }
  // What the pager was asked for.
  mail::ChangeBudget ordered() {
    std::vector<PagerMail> batch;
    mail->drain(batch);
    CHECK(batch.size() == 1 && std::holds_alternative<mail::ChangeBudget>(batch[0]));
    return std::get<mail::ChangeBudget>(batch[0]);
  }
  void pager_answers(const mail::ChangeBudget& order, std::uint64_t kept_bytes) {
    CHECK(news->try_push(RequestDone{.request = order.request, .kept_pinned_bytes = kept_bytes}));
    context.restart();
    while (context.poll_one() == 0) context.run_one_for(std::chrono::seconds(20));
    context.poll();
  }

  boost::asio::io_context context{1};
  std::unique_ptr<Mailbox<PagerMail>> mail = test::open_mailbox<PagerMail>();
  std::unique_ptr<Mailbox<PagerNews>> news = test::open_mailbox<PagerNews>();
  PagerStats stats;
  DeviceLink device{
      context,
      {.id = "host", .kind = "host", .limits = {.frame_bytes = mib, .capacity_bytes = 100 * mib}},
      *mail,
      *news,
      stats};
  AdmissionDesk desk{context, device, {.room = {.capacity_bytes = 100 * mib}}, [](auto&&...) {}};
  std::optional<Outcome<AdmissionDesk::Granted>> answer;
};

TEST_F(AdmissionDeskTest, AdmitsWhenThePagerHasMadeRoomWhateverItsFiguresSay) {
  stats.used_bytes = 100 * mib;  // Of the moment before the pager gave back.
  ask(40 * mib);
  const mail::ChangeBudget order = ordered();
  EXPECT_EQ(order.bytes, 60 * mib);
  EXPECT_FALSE(answer.has_value());
  pager_answers(order, 0);
  ASSERT_TRUE(answer.has_value());
  EXPECT_TRUE(answer->has_value());
  EXPECT_EQ(desk.booked_bytes(), 40 * mib);
}

TEST_F(AdmissionDeskTest, KeepsADemandWaitingWhileWhatIsPinnedStandsInItsWay) {
  stats.used_bytes = 0;  // The figures are older than the pages that are pinned.
  ask(40 * mib);
  const mail::ChangeBudget order = ordered();
  pager_answers(order, 30 * mib);
  EXPECT_FALSE(answer.has_value() && answer->has_value());
  EXPECT_EQ(desk.booked_bytes(), 0u);
}

TEST_F(AdmissionDeskTest, GivesBackWhatASessionHadBooked) {
  ask(40 * mib);
  pager_answers(ordered(), 0);
  ASSERT_TRUE(answer.has_value() && answer->has_value());
  desk.close(client);
  EXPECT_EQ(desk.booked_bytes(), 0u);
  EXPECT_EQ(ordered().bytes, 100 * mib);
}

}  // namespace
}  // namespace penstock
