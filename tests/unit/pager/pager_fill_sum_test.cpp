// SPDX-License-Identifier: Apache-2.0
// Pages that are summed up when they have been filled, as a GPU's writer does it.
#include <gtest/gtest.h>

#include "dataplane/kernels/convert.hpp"
#include "tests/unit/pager/load_rig.hpp"
#include "tests/unit/pager/pager_rig.hpp"

namespace penstock::test {
namespace {

constexpr std::uint64_t frame = PagerRig::frame;

// Sums up when it is told to; answers when the test lets it.
class ScriptedSummer final : public FrameSummer {
 public:
  struct Script {
    FrameWriter* writer = nullptr;
    bool answers = true, busy = false;
    std::optional<Error> failure;  // Of every sum.
    std::uint64_t fills = 0, started = 0;
  };
  explicit ScriptedSummer(Script& script) : script_(script) {}

  bool wants_descriptors() const override { return false; }
  Result<> start(FrameId of, int, std::uint64_t) override {
    ++script_.started;
    sum_ = sum_of(of);
    return {};
  }
  std::optional<Result<std::uint64_t>> take() override {
    if (!script_.answers) return std::nullopt;
    return *std::exchange(sum_, std::nullopt);
  }
  bool sums_fills() const override { return true; }
  Result<FenceId> start_fill(FrameId of) override {
    if (script_.busy) return Error{Errc::busy, 0, "scripted"};
    const FenceId fence{++script_.fills};
    fills_.emplace(fence, sum_of(of));
    return fence;
  }
  std::optional<Result<std::uint64_t>> take_fill(FenceId fence) override {
    if (!script_.answers) return std::nullopt;
    return fills_.extract(fence).mapped();
  }

 private:
  Result<std::uint64_t> sum_of(FrameId of) const {
    if (script_.failure) return *script_.failure;
    return checksum(script_.writer->address(of));
  }

  Script& script_;
  std::optional<Result<std::uint64_t>> sum_;
  std::map<FenceId, Result<std::uint64_t>> fills_;
};

class PagerFillSum : public ::testing::Test {
 protected:
  PagerFillSum() {
    script.writer = &rig.device.writer();
    port = rig.start(3 * frame);
  }

  void ask(std::uint32_t page) {
    port->say(PeerFault{.request = ++requests, .table = 1, .first = page, .count = 1});
    rig.settle();
  }
  void take_grant() { port->say(PeerGranted{.batch = port->take<SentGrants>().batch}); }
  void write_astray(std::uint32_t made) {
    rig.device.writer().address(FrameId{made})[frame - 1] ^= std::byte{1};
  }
  RequestDone scrub() {
    rig.mail(mail::ScrubTable{.request = RequestId{++requests}, .table = TableId{1}});
    for (int turn = 0; turn < 100; ++turn) {
      rig.advance(std::chrono::milliseconds(5));
      rig.turn();
      for (RequestDone& done : rig.take_news<RequestDone>()) {
        if (done.request == RequestId{requests}) return done;
      }
    }
    ADD_FAILURE() << "no answer to a scrub";
    return {};
  }

  ScriptedSummer::Script script;
  std::vector<SumsOff> told;
  PagerRig rig{{.pager = {.scrub = {.soon = 1ull << 40, .rolling = 0},
                          .on_sums_off = [this](const SumsOff& off) { told.push_back(off); }},
                .summer = std::make_unique<ScriptedSummer>(script)}};
  ScriptedPort* port = nullptr;
  std::uint64_t requests = 100;
};

TEST_F(PagerFillSum, IsThereBeforeAnybodyGetsThePage) {
  script.answers = false;
  ask(0);
  EXPECT_EQ(script.fills, 1u);
  EXPECT_EQ(port->sent_count(), 0u);
  EXPECT_EQ(rig.residency(1, 0), Residency::loading);
  script.answers = true;
  rig.turn();
  EXPECT_EQ(rig.residency(1, 0), Residency::resident);
  take_grant();
}

TEST_F(PagerFillSum, FindsWhatWentWrongBeforeThePageWasEverScrubbed) {
  ask(0);
  take_grant();
  write_astray(1);
  EXPECT_EQ(scrub().corrupt_pages, 1u);
}

TEST_F(PagerFillSum, WaitsWhileTheWriterIsBusy) {
  script.busy = true;
  ask(0);
  EXPECT_EQ(rig.residency(1, 0), Residency::loading);
  script.busy = false;
  rig.turn();
  EXPECT_EQ(rig.residency(1, 0), Residency::resident);
  EXPECT_EQ(script.fills, 1u);
  take_grant();
}

TEST_F(PagerFillSum, AFailureLeavesThePageToItsTurn) {
  script.failure = Error{Errc::exhausted, 2, "scripted"};
  ask(0);
  take_grant();
  EXPECT_EQ(rig.residency(1, 0), Residency::resident);
}

TEST_F(PagerFillSum, FailuresTurnChecksumsOffAndSayItOnce) {
  script.failure = Error{Errc::exhausted, 2, "scripted"};
  ask(0);
  take_grant();
  for (int turn = 0; turn < 1000; ++turn) {
    rig.advance(std::chrono::milliseconds(10));
    rig.turn();
  }
  ASSERT_EQ(told.size(), 1u);
  EXPECT_FALSE(told.front().writer_lost);
  EXPECT_EQ(told.front().error.native, 2);
  // One at the load and four more, in ten seconds.
  EXPECT_EQ(script.fills + script.started, 5u);
  const RequestDone refused = scrub();
  EXPECT_EQ(refused.result, TicketResult::failed);
  EXPECT_EQ(refused.reason, FailureKind::device_unhealthy);
  // It works again, once the time is over.
  script.failure.reset();
  rig.advance(std::chrono::seconds(20));
  rig.turn();
  EXPECT_EQ(scrub().result, TicketResult::done);
  write_astray(1);
  EXPECT_EQ(scrub().corrupt_pages, 1u);
}

TEST_F(PagerFillSum, ARequestWhoseSumsFailIsAnswered) {
  ask(0);
  take_grant();
  script.failure = Error{Errc::exhausted, 2, "scripted"};
  rig.mail(mail::ScrubTable{.request = RequestId{++requests}, .table = TableId{1}});
  rig.settle();
  bool answered = false;
  for (int turn = 0; turn < 400 && !answered; ++turn) {
    rig.advance(std::chrono::milliseconds(10));
    rig.turn();
    for (const RequestDone& done : rig.take_news<RequestDone>())
      answered = answered || done.request == RequestId{requests};
  }
  EXPECT_TRUE(answered);
}

TEST_F(PagerFillSum, ALossUnderOneTurnsThemOffAndKeepsThePage) {
  script.failure = Error{Errc::device, 700, "scripted"};
  ask(0);
  take_grant();
  EXPECT_EQ(rig.residency(1, 0), Residency::resident);
  rig.turn();
  ASSERT_EQ(told.size(), 1u);
  EXPECT_TRUE(told.front().writer_lost);
  ask(1);
  take_grant();
  EXPECT_EQ(script.fills + script.started, 1u);
}

TEST_F(PagerFillSum, ACancelledLoadDoesNotWaitForIt) {
  script.answers = false;
  ask(0);
  ASSERT_EQ(rig.residency(1, 0), Residency::loading);
  rig.mail(mail::DetachTable{.session = SessionId{1}, .table = TableId{1}});
  rig.mail(mail::CloseTable{.table = TableId{1}});
  rig.settle();
  // Its frame goes before the sum is there, which comes for nobody.
  EXPECT_EQ(rig.checked.frames_alive(), 0u);
  rig.pager->core().verify();
  script.answers = true;
  rig.turn();
  EXPECT_EQ(rig.checked.frames_alive(), 0u);
}

TEST_F(PagerFillSum, AMoreUrgentLoadOfThePageBeginsNoOther) {
  script.answers = false;
  port->say(PeerPrefetch{.request = ++requests, .table = 1, .first = 0, .count = 1});
  rig.settle();
  EXPECT_EQ(script.fills, 1u);
  ask(0);
  EXPECT_EQ(rig.pager->loads().idle(), true);
  script.answers = true;
  rig.settle();
  EXPECT_EQ(script.fills, 1u);
  EXPECT_EQ(rig.residency(1, 0), Residency::resident);
  rig.pager->core().verify();
}

}  // namespace
}  // namespace penstock::test
