// SPDX-License-Identifier: Apache-2.0
// The writer is killed at each step of its work, and the service with it.
#include <csignal>

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/integration/writer/writer_rig.hpp"
#include "tests/support/drive_device.hpp"

namespace penstock::test {
namespace {

// What every death must leave behind: a writer that works, and nothing else.
void expect_works(WriterRig& rig, std::uint64_t seed) {
  ASSERT_TRUE(rig.wait_until_ready());
  const FrameId frame = rig.make_attached();
  ASSERT_TRUE(rig.fill(frame, seed));
  EXPECT_EQ(rig.content(frame), rig.pattern(seed));
  rig.destroy(frame);
  EXPECT_EQ(children(), std::set<pid_t>{rig.pid()});
}

TEST(WriterDeath, BeforeAnythingWasAskedIsRepaired) {
  WriterRig rig;
  ASSERT_TRUE(rig.wait_until_ready());
  rig.signal(SIGKILL);
  EXPECT_EQ(rig.wait_for_loss(), Errc::device);
  expect_works(rig, 1);
  EXPECT_EQ(rig.stats().losses, 1u);
  EXPECT_EQ(rig.stats().last_loss, WriterLoss::died);
  EXPECT_EQ(rig.stats().last_detail, SIGKILL);
}

TEST(WriterDeath, BeforeAFrameIsMappedLosesTheFrame) {
  WriterRig rig;
  ASSERT_TRUE(rig.wait_until_ready());
  rig.signal(SIGSTOP);
  const FrameId frame = rig.make_attached();
  rig.writer().flush();
  rig.signal(SIGKILL);
  EXPECT_EQ(rig.wait_for_loss(), Errc::device);
  // Whoever did not hear of the loss is told.
  EXPECT_EQ(rig.writer().copy(frame, 0, rig.device.stage(rig.pattern(2)), {}).error().code, Errc::device);
  rig.destroy(frame);
  expect_works(rig, 2);
}

TEST(WriterDeath, DuringACopyLosesThatPageAndNoOther) {
  WriterRig rig;
  const FrameId full = rig.make_attached(), torn = rig.make_attached();
  ASSERT_TRUE(rig.fill(full, 3));
  rig.signal(SIGSTOP);
  const Result<FenceId> fence = rig.writer().copy(torn, 0, rig.device.stage(rig.pattern(4)), {});
  ASSERT_TRUE(fence.has_value());
  rig.writer().flush();
  rig.signal(SIGKILL);
  EXPECT_EQ(rig.wait_for_loss(), Errc::device);
  rig.destroy(torn);
  expect_works(rig, 4);
  EXPECT_EQ(rig.content(full), rig.pattern(3));
  // A frame of the lost writer is never written again, but can be copied from, also once published.
  EXPECT_EQ(rig.writer().copy(full, 0, rig.device.stage(rig.pattern(5)), {}).error().code, Errc::device);
  const FrameId own = rig.make_attached();
  const Result<FenceId> copied = rig.writer().copy_frame(own, full);
  ASSERT_TRUE(copied.has_value());
  ASSERT_TRUE(wait_reached(rig.writer(), *copied));
  EXPECT_EQ(rig.content(own), rig.pattern(3));
}

TEST(WriterDeath, AfterTheFenceLosesNothing) {
  WriterRig rig;
  const FrameId frame = rig.make_attached();
  ASSERT_TRUE(rig.fill(frame, 6));
  const Result<FenceId> fence = rig.writer().copy(frame, 0, rig.device.stage(rig.pattern(7)), {});
  ASSERT_TRUE(fence.has_value());
  rig.writer().flush();
  // The answer is in the socket, unread, when the writer dies.
  ASSERT_TRUE(wait_readable(rig.writer().event_fd()));
  while (rig.content(frame) != rig.pattern(7)) ASSERT_TRUE(wait_readable(rig.writer().event_fd()));
  const pid_t writer = rig.pid();
  rig.signal(SIGSTOP);
  rig.signal(SIGKILL);
  rig.wait_until_gone(writer);
  EXPECT_TRUE(wait_reached(rig.writer(), *fence));
  EXPECT_EQ(rig.wait_for_loss(), Errc::device);
  EXPECT_EQ(rig.content(frame), rig.pattern(7));
  expect_works(rig, 8);
}

TEST(WriterDeath, FencesGrowOverAllWriters) {
  WriterRig rig;
  FenceId last{};
  for (std::uint64_t round = 0; round < 3; ++round) {
    const FrameId frame = rig.make_attached();
    const Result<FenceId> fence = rig.writer().copy(frame, 0, rig.device.stage(rig.pattern(round)), {});
    ASSERT_TRUE(fence.has_value());
    EXPECT_GT(*fence, last);
    last = *fence;
    ASSERT_TRUE(wait_reached(rig.writer(), last));
    rig.signal(SIGKILL);
    EXPECT_EQ(rig.wait_for_loss(), Errc::device);
    rig.destroy(frame);
    ASSERT_TRUE(rig.wait_until_ready());
    EXPECT_GE(rig.writer().reached().value_or(FenceId{}), last);
  }
}

TEST(WriterDeath, FiveInAMinuteAreAQuarantineUntilItIsLifted) {
  WriterRig rig;
  for (int death = 0; death < 5; ++death) {
    ASSERT_TRUE(rig.wait_until_ready());
    rig.signal(SIGKILL);
    EXPECT_EQ(rig.wait_for_loss(), death < 4 ? Errc::device : Errc::closed);
  }
  EXPECT_EQ(rig.stats().state, WriterState::quarantined);
  EXPECT_EQ(rig.writer().reached().error().code, Errc::closed);
  const std::optional<FrameId> frame = make_frame(rig.device.owner());
  ASSERT_TRUE(frame.has_value());
  EXPECT_EQ(rig.writer().attach(*frame).error().code, Errc::closed);
  rig.wait_until_collected();
  EXPECT_TRUE(children().empty());
  rig.writer().filler().restart();
  expect_works(rig, 9);
}

TEST(WriterDeath, AProgramThatCantServeIsQuarantined) {
  FixedHeadroom headroom;
  RemoteHostDevice device({.frame_bytes = WriterRig::frame_bytes,
                           .capacity_bytes = 4 * WriterRig::frame_bytes,
                           .ready_pool_frames = 1,
                           .pages = HostPages::small},
                          headroom, WriterRig::quick(), "no-such-kind");
  while (device.stats().state != WriterState::quarantined || device.stats().pid != 0) {
    static_cast<void>(device.writer().reached());
    ASSERT_TRUE(wait_readable(device.writer().event_fd()));
  }
  EXPECT_EQ(device.stats().last_loss, WriterLoss::died);
  EXPECT_EQ(device.stats().last_detail, -1 - 2);
  EXPECT_EQ(device.stats().starts, 5u);
}

TEST(WriterDeath, LeavesNoDescriptorProcessOrMappingBehind) {
  const std::size_t before = open_descriptors();
  {
    WriterRig rig;
    std::size_t at_work = 0;
    for (std::uint64_t round = 0; round < 4; ++round) {
      ASSERT_TRUE(rig.wait_until_ready());
      std::vector<FrameId> frames;
      for (int i = 0; i < 8; ++i) frames.push_back(rig.make_attached());
      ASSERT_TRUE(rig.fill(frames.front(), round));
      EXPECT_EQ(mappings(rig.pid(), "penstock-frame"), 8u);
      rig.signal(SIGSTOP);
      for (const FrameId frame : frames) {
        ASSERT_TRUE(rig.writer().copy(frame, 0, rig.device.stage(rig.pattern(round)), {}));
      }
      rig.writer().flush();
      rig.signal(SIGKILL);
      EXPECT_EQ(rig.wait_for_loss(), Errc::device);
      for (const FrameId frame : frames) rig.destroy(frame);
      ASSERT_TRUE(rig.wait_until_ready());
      EXPECT_EQ(mappings(rig.pid(), "penstock-frame"), 0u);
      if (round == 0) at_work = descriptors_but_frames();
      EXPECT_EQ(descriptors_but_frames(), at_work);
    }
    EXPECT_EQ(children().size(), 1u);
  }
  EXPECT_EQ(open_descriptors(), before);
  EXPECT_TRUE(children().empty());
}

TEST(WriterDeath, DetachedFramesAreUnmapped) {
  WriterRig rig;
  const FrameId kept = rig.make_attached(), gone = rig.make_attached();
  rig.writer().detach(gone);
  rig.destroy(gone);
  ASSERT_TRUE(rig.fill(kept, 1));
  EXPECT_EQ(mappings(rig.pid(), "penstock-frame"), 1u);
}

// Starts a writer in a child, as a service would, and returns its pid.
pid_t start_in_child(pid_t& service, bool stopped) {
  int ends[2];
  if (::pipe(ends) != 0) return 0;
  service = ::fork();
  if (service == 0) {
    WriterRig rig;
    if (!rig.wait_until_ready()) ::_exit(1);
    if (stopped) rig.signal(SIGSTOP);
    const pid_t writer = rig.pid();
    if (::write(ends[1], &writer, sizeof writer) != sizeof writer) ::_exit(1);
    ::pause();
    ::_exit(1);
  }
  pid_t writer = 0;
  const ssize_t got = ::read(ends[0], &writer, sizeof writer);
  ::close(ends[0]);
  ::close(ends[1]);
  return got == sizeof writer ? writer : 0;
}

TEST(ServiceDeath, TakesItsWriterAlong) {
  for (const bool stopped : {false, true}) {
    pid_t service = 0;
    const pid_t writer = start_in_child(service, stopped);
    ASSERT_GT(writer, 0);
    const UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, writer, 0)));
    ASSERT_TRUE(static_cast<bool>(pidfd));
    ASSERT_EQ(::kill(service, SIGKILL), 0);
    EXPECT_TRUE(wait_readable(pidfd.get()));
    EXPECT_EQ(::waitpid(service, nullptr, 0), service);
  }
}

TEST(ServiceDeath, SignalsForTheGroupDontReachTheWriter) {
  WriterRig rig;
  ASSERT_TRUE(rig.wait_until_ready());
  for (const int number : {SIGTERM, SIGINT, SIGHUP}) rig.signal(number);
  const FrameId frame = rig.make_attached();
  EXPECT_TRUE(rig.fill(frame, 1));
  EXPECT_EQ(rig.stats().losses, 0u);
}

}  // namespace
}  // namespace penstock::test
