// SPDX-License-Identifier: Apache-2.0
// Figures of devices whose threads the test plays.
#include "service/control/newest_figures.hpp"

#include <gtest/gtest.h>

#include "dataplane/base/units.hpp"
#include "tests/support/open_mailbox.hpp"

namespace penstock {
namespace {

class NewestFigures : public ::testing::Test {
 protected:
  NewestFigures() {
    for (std::size_t device = 0; device < 2; ++device) {
      devices.push_back(std::make_unique<DeviceLink>(
          context,
          DeviceLink::Description{
              .id = "host", .kind = "host", .limits = {.frame_bytes = mib, .capacity_bytes = 16 * mib}},
          *mail[device], *news[device], stats[device]));
    }
  }
  void ask() {
    with_newest_figures(context, devices, [this] {
      ++told;
      shown = stats[0].resident_bytes;
    });
  }
  // The thread of a device has sent an answer, and not published what it was about.
  void answer(std::size_t device) { ++stats[device].turns_begun; }
  void publish(std::size_t device) { stats[device].turns_published = stats[device].turns_begun.load(); }
  void run_some() { context.run_for(std::chrono::milliseconds(1)); }
  void run_until_told() {
    for (int i = 0; i < 20'000 && told == 0; ++i) run_some();
  }

  boost::asio::io_context context{1};
  std::unique_ptr<Mailbox<PagerMail>> mail[2] = {test::open_mailbox<PagerMail>(),
                                                 test::open_mailbox<PagerMail>()};
  std::unique_ptr<Mailbox<PagerNews>> news[2] = {test::open_mailbox<PagerNews>(),
                                                 test::open_mailbox<PagerNews>()};
  PagerStats stats[2];
  std::vector<std::unique_ptr<DeviceLink>> devices;
  int told = 0;
  std::uint64_t shown = 0;
};

TEST_F(NewestFigures, AreShownAtOnceWhenEveryTurnIsPublished) {
  answer(0);
  publish(0);
  ask();
  EXPECT_EQ(told, 1);
}

TEST_F(NewestFigures, AreThoseOfTheAnswersThatCameBefore) {
  stats[0].resident_bytes = 4 * mib;
  answer(0);
  ask();
  context.poll();
  EXPECT_EQ(told, 0) << "the page that the client was given is not among them yet";
  stats[0].resident_bytes = 5 * mib;
  publish(0);
  run_until_told();
  EXPECT_EQ(told, 1);
  EXPECT_EQ(shown, 5 * mib);
}

TEST_F(NewestFigures, AreThoseOfEveryDevice) {
  answer(0);
  answer(1);
  publish(1);
  ask();
  context.poll();
  EXPECT_EQ(told, 0);
  publish(0);
  run_until_told();
  EXPECT_EQ(told, 1);
}

TEST_F(NewestFigures, DoNotWaitForTurnsThatBeginLater) {
  answer(0);
  ask();
  publish(0);
  answer(0);
  run_until_told();
  EXPECT_EQ(told, 1);
  EXPECT_LT(stats[0].turns_published.load(), stats[0].turns_begun.load());
}

TEST_F(NewestFigures, OfAThreadThatHangsAreThoseThatItPublishedLast) {
  stats[0].resident_bytes = 4 * mib;
  answer(0);
  ask();
  run_until_told();
  EXPECT_EQ(told, 1);
  EXPECT_EQ(shown, 4 * mib);
}

}  // namespace
}  // namespace penstock
