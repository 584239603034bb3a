// SPDX-License-Identifier: Apache-2.0
// Writers that do not answer, or answer what they must not.
#include <array>
#include <csignal>
#include <utility>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dataplane/base/check.hpp"
#include "tests/integration/writer/writer_rig.hpp"
#include "tests/support/drive_device.hpp"
#include "tests/support/eventually.hpp"

namespace penstock::test {
namespace {

TEST(WriterWatchdog, ReplacesAWriterThatWasStopped) {
  WriterRig rig;
  const FrameId frame = rig.make_attached();
  ASSERT_TRUE(rig.fill(frame, 1));
  const pid_t first = rig.pid();
  rig.signal(SIGSTOP);
  ASSERT_TRUE(rig.writer().copy(frame, 0, rig.device.stage(rig.pattern(2)), {}));
  EXPECT_EQ(rig.wait_for_loss(), Errc::device);
  EXPECT_EQ(rig.stats().last_loss, WriterLoss::stalled);
  rig.destroy(frame);
  ASSERT_TRUE(rig.wait_until_ready());
  EXPECT_NE(rig.pid(), first);
  const FrameId next = rig.make_attached();
  EXPECT_TRUE(rig.fill(next, 3));
  EXPECT_EQ(children(), std::set<pid_t>{rig.pid()});
}

TEST(WriterWatchdog, NoticesAnIdleWriterThatWasStopped) {
  WriterRig rig;
  ASSERT_TRUE(rig.wait_until_ready());
  rig.signal(SIGSTOP);
  EXPECT_EQ(rig.wait_for_loss(), Errc::device);
  EXPECT_EQ(rig.stats().last_loss, WriterLoss::stalled);
  EXPECT_TRUE(rig.wait_until_ready());
}

TEST(WriterWatchdog, LetsAWriterGoOnThatWasStoppedForLess) {
  RemoteFillerOptions options = WriterRig::quick();
  options.stall_ticks = 100'000;
  WriterRig rig(options);
  const FrameId frame = rig.make_attached();
  ASSERT_TRUE(rig.fill(frame, 1));
  rig.signal(SIGSTOP);
  const Result<FenceId> fence = rig.writer().copy(frame, 0, rig.device.stage(rig.pattern(2)), {});
  ASSERT_TRUE(fence.has_value());
  for (int tick = 0; tick < 5; ++tick) {
    EXPECT_TRUE(rig.writer().reached().has_value());
    ASSERT_TRUE(wait_readable(rig.writer().event_fd()));
  }
  rig.signal(SIGCONT);
  EXPECT_TRUE(wait_reached(rig.writer(), *fence));
  EXPECT_EQ(rig.stats().losses, 0u);
}

TEST(WriterWatchdog, TakesACommandQueueThatTheSocketCantHold) {
  RemoteFillerOptions options = WriterRig::quick();
  options.stall_ticks = 100'000;
  options.queue_depth = 100'000;
  WriterRig rig(options);
  const FrameId frame = rig.make_attached();
  ASSERT_TRUE(rig.fill(frame, 1));
  rig.signal(SIGSTOP);
  const std::vector<std::byte> bytes(64, std::byte{5});
  const std::span<const std::byte> staged = rig.device.stage(bytes);
  FenceId last{};
  for (std::uint64_t at = 0; at < 20'000; ++at) {
    const Result<FenceId> fence = rig.writer().copy(frame, at % 4096 * 64, staged, {});
    ASSERT_TRUE(fence.has_value());
    last = *fence;
  }
  rig.signal(SIGCONT);
  EXPECT_TRUE(wait_reached(rig.writer(), last));
  EXPECT_EQ(rig.content(frame), std::vector<std::byte>(WriterRig::frame_bytes, std::byte{5}));
}

// A shell in the place of the writer.
WriterState state_after(const std::string& script, WriterLoss& why) {
  auto program = WriterProgram::open("/bin/sh", {"-c", script});
  RemoteFillerOptions options = WriterRig::quick();
  options.restarts.deaths_max = 1;
  options.start_ticks = 30;
  options.farewell_ticks = 2;
  auto filler = RemoteFiller::open(*std::move(program), options);
  while ((*filler)->reached().has_value() && wait_readable((*filler)->event_fd())) {
  }
  why = (*filler)->stats().last_loss;
  return (*filler)->stats().state;
}

TEST(WriterWatchdog, AWriterThatTalksNonsenseIsLost) {
  WriterLoss why{};
  EXPECT_EQ(state_after("printf nonsense >&3; exec sleep 60", why), WriterState::quarantined);
  EXPECT_EQ(why, WriterLoss::confused);
  // 32 bytes of the right shape: `reached` for a fence that nobody asked for.
  EXPECT_EQ(
      state_after(
          R"(printf '\001\0\0\0\0\0\0\0\011\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0' >&3; exec sleep 60)",
          why),
      WriterState::quarantined);
  EXPECT_EQ(why, WriterLoss::confused);
  EXPECT_TRUE(children().empty());
}

TEST(WriterWatchdog, AWriterThatNeverGetsReadyIsLost) {
  WriterLoss why{};
  EXPECT_EQ(state_after("exec sleep 60", why), WriterState::quarantined);
  EXPECT_EQ(why, WriterLoss::stalled);
}

TEST(WriterWatchdog, AWriterThatHangsUpIsLost) {
  WriterLoss why{};
  EXPECT_EQ(state_after("exec 3>&-; exec sleep 60", why), WriterState::quarantined);
  EXPECT_EQ(why, WriterLoss::died);
}

// What is traced can't be collected by its parent before its tracer lets go: to the service as one that SIGKILL does not end.
class Tracer {
 public:
  explicit Tracer(pid_t traced) {
    std::array<int, 2> ends{};
    CHECK(::pipe2(ends.data(), O_CLOEXEC) == 0);
    UniqueFd from(ends[0]), to(ends[1]);
    own_ = ::fork();
    CHECK(own_ >= 0);
    if (own_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      const char traces = ::ptrace(PTRACE_SEIZE, traced, nullptr, nullptr) == 0 ? 1 : 0;
      CHECK(::write(to.get(), &traces, 1) == 1);
      while (true) ::pause();
    }
    char traces = 0;
    traces_ = ::read(from.get(), &traces, 1) == 1 && traces == 1;
  }
  ~Tracer() { let_go(); }
  Tracer(const Tracer&) = delete;
  Tracer& operator=(const Tracer&) = delete;

  bool traces() const { return traces_; }
  void let_go() {
    if (own_ == 0) return;
    ::kill(own_, SIGKILL);
    ::waitpid(std::exchange(own_, 0), nullptr, 0);
  }

 private:
  pid_t own_ = 0;
  bool traces_ = false;
};

TEST(WriterWatchdog, AWriterThatCantBeKilledIsAQuarantineUntilItIsGone) {
  RemoteFillerOptions options = WriterRig::quick();
  options.farewell_ticks = options.end_ticks = 10;
  options.retry_ticks = options.retry_ticks_most = 5;
  WriterRig rig(options);
  ASSERT_TRUE(rig.wait_until_ready());
  Tracer tracer(rig.pid());
  if (!tracer.traces()) GTEST_SKIP() << "requires the right to trace a process";
  rig.signal(SIGKILL);
  EXPECT_EQ(rig.wait_for_loss(), Errc::device);
  // Whoever waits for a frame gets an answer from then on.
  ASSERT_TRUE(eventually([&] { return rig.wait_for_loss() == Errc::closed; }));
  EXPECT_EQ(rig.stats().state, WriterState::quarantined);
  EXPECT_EQ(rig.stats().starts, 1u) << "none beside it";
  tracer.let_go();
  ASSERT_TRUE(eventually([&] {
    static_cast<void>(rig.writer().reached());
    return rig.stats().state == WriterState::ready;
  }));
  EXPECT_EQ(rig.stats().starts, 2u);
  EXPECT_TRUE(rig.fill(rig.make_attached(), 1));
}

}  // namespace
}  // namespace penstock::test
