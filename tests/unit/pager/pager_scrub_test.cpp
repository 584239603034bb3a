// SPDX-License-Identifier: Apache-2.0
// Stray writes into resident pages, through the mapping that the owner of frames has.
#include <gtest/gtest.h>

#include "tests/support/eventually.hpp"
#include "tests/unit/pager/load_rig.hpp"
#include "tests/unit/pager/pager_rig.hpp"

namespace penstock::test {
namespace {

constexpr std::uint64_t frame = PagerRig::frame;

class PagerScrub : public ::testing::Test {
 protected:
  // Faults the page in, and maps it. Its bytes as they arrive.
  std::vector<std::byte> fault(std::uint32_t page) {
    port->say(PeerFault{.request = ++requests, .table = 1, .first = page, .count = 1});
    rig.settle();
    const SentGrants grants = port->take<SentGrants>();
    generations[page] = grants.pages.front().generation;
    port->say(PeerGranted{.batch = grants.batch});
    rig.settle();
    return PagerRig::content(grants.pages.front());
  }
  // Frames are numbered in the order of their making.
  void write_astray(std::uint32_t made) {
    rig.device.writer().address(FrameId{made})[frame - 1] ^= std::byte{1};
  }

  bool runs_until(const auto& condition) {
    return eventually([&] {
      rig.advance(std::chrono::milliseconds(5));
      rig.turn();
      return condition();
    });
  }
  bool sums(std::uint64_t more) {
    const std::uint64_t wanted = rig.stats.scrubbed_pages.load() + more;
    return runs_until([&] { return rig.stats.scrubbed_pages.load() >= wanted; });
  }

  PagerRig rig{{.scrubs = true}};
  ScriptedPort* port = rig.start(3 * frame);
  std::uint64_t requests = 0;
  std::map<std::uint32_t, std::uint64_t> generations;
};

TEST_F(PagerScrub, LeavesPagesAloneThatNobodyWroteTo) {
  fault(0);
  fault(1);
  ASSERT_TRUE(sums(10));
  EXPECT_EQ(rig.stats.corrupt_pages.load(), 0u);
  EXPECT_EQ(port->sent_count(), 0u);
  EXPECT_EQ(rig.residency(1, 0), Residency::resident);
}

TEST_F(PagerScrub, FindsAStrayWriteEvictsThePageAndReadsItAgain) {
  const std::vector<std::byte> good = expected_bytes(frame, frame, 3 * frame);
  fault(0);
  ASSERT_EQ(fault(1), good);
  ASSERT_TRUE(sums(4));
  write_astray(2);
  ASSERT_TRUE(runs_until([&] { return port->sent_count() > 0; }));
  EXPECT_EQ(rig.stats.corrupt_pages.load(), 1u);
  const SentRevoke revoke = port->take<SentRevoke>();
  ASSERT_EQ(revoke.page, 1u);
  port->say(PeerAcked{.table = 1, .page = 1, .generation = revoke.generation});
  rig.settle();
  EXPECT_EQ(rig.residency(1, 0), Residency::resident);
  // By itself, before anybody faults.
  EXPECT_EQ(rig.residency(1, 1), Residency::resident);
  EXPECT_EQ(fault(1), good);
  EXPECT_GT(generations[1], revoke.generation);
  ASSERT_TRUE(sums(6));
  EXPECT_EQ(rig.stats.corrupt_pages.load(), 1u);
  rig.pager->core().verify();

  bool logged = false;
  for (const PagerDecision& decision : rig.take_news<PagerDecision>())
    logged = logged || (decision.kind == PagerDecision::Kind::corrupt && decision.page == 1 &&
                        decision.detail.starts_with("its checksum is "));
  EXPECT_TRUE(logged);
}

TEST_F(PagerScrub, TakesACorruptPageInUseOnceItIsIdle) {
  fault(0);
  ASSERT_TRUE(sums(2));
  write_astray(1);
  ASSERT_TRUE(runs_until([&] { return port->sent_count() > 0; }));
  const SentRevoke first = port->take<SentRevoke>();
  port->say(PeerBusy{.table = 1, .page = 0, .generation = first.generation, .later = false});
  rig.settle();
  EXPECT_EQ(rig.residency(1, 0), Residency::resident);
  port->say(PeerIdle{.table = 1, .page = 0});
  ASSERT_TRUE(runs_until([&] { return port->sent_count() > 0; }));
  const SentRevoke second = port->take<SentRevoke>();
  EXPECT_EQ(second.generation, first.generation);
  port->say(PeerAcked{.table = 1, .page = 0, .generation = second.generation});
  rig.settle();
  EXPECT_EQ(rig.residency(1, 0), Residency::resident);
  EXPECT_EQ(rig.stats.corrupt_pages.load(), 1u);
  EXPECT_EQ(rig.stats.evictions[static_cast<std::size_t>(EvictReason::request)].load(), 1u);
}

TEST_F(PagerScrub, AnswersWhoAskedOnceItHasLooked) {
  fault(0);
  fault(1);
  ASSERT_TRUE(sums(2));
  write_astray(2);
  rig.mail(mail::ScrubTable{.request = RequestId{7}, .table = TableId{1}});
  std::vector<RequestDone> answers;
  ASSERT_TRUE(runs_until([&] {
    for (RequestDone& done : rig.take_news<RequestDone>()) answers.push_back(std::move(done));
    return !answers.empty();
  }));
  EXPECT_EQ(answers.front().request, RequestId{7});
  EXPECT_EQ(answers.front().bytes, 2 * frame);
  EXPECT_EQ(answers.front().corrupt_pages, 1u);
  rig.mail(mail::ScrubTable{.request = RequestId{8}, .table = TableId{99}});
  rig.settle();
  answers = rig.take_news<RequestDone>();
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers.front().reason, FailureKind::not_found);
}

TEST_F(PagerScrub, ForgetsPagesOfATableThatIsClosed) {
  fault(0);
  ASSERT_TRUE(sums(2));
  rig.mail(mail::DetachTable{.session = SessionId{1}, .table = TableId{1}});
  rig.mail(mail::CloseTable{.table = TableId{1}});
  rig.settle();
  EXPECT_EQ(rig.checked.frames_alive(), 0u);
  const std::uint64_t before = rig.stats.scrubbed_pages.load();
  for (int turn = 0; turn < 100; ++turn) {
    rig.advance(std::chrono::milliseconds(5));
    rig.turn();
  }
  // At most the one that was under way.
  EXPECT_LE(rig.stats.scrubbed_pages.load(), before + 1);
}

}  // namespace
}  // namespace penstock::test
