// SPDX-License-Identifier: Apache-2.0
// The writer's loop while its filler has no room: whatever came in between, what was refused goes on.
#include <array>
#include <atomic>
#include <cstdint>
#include <optional>

#include <gtest/gtest.h>
#include <sys/socket.h>

#include "dataplane/base/event_fd.hpp"
#include "dataplane/kernels/convert.hpp"
#include "tests/support/eventually.hpp"
#include "tests/unit/writer/writer_loop_rig.hpp"

namespace penstock {
namespace {

// Has room for one sum, until that is ended.
class OneSumAtATime : public HostFiller {
 public:
  int event_fd() const override { return wake_.fd(); }
  Result<FenceId> checksum(FrameId frame) override {
    if (has_open()) return Error{Errc::busy, 0, "checksum"};
    const FenceId fence = TRY(HostFiller::checksum(frame));
    open_ = raw(fence);
    return fence;
  }
  Result<FenceId> reached() override {
    wake_.consume();
    ++looks_;
    if (has_open() && !ended_) return FenceId{open_ - 1};
    return HostFiller::reached();
  }
  std::optional<Result<std::uint64_t>> take_checksum(FenceId fence) override {
    open_ = 0;
    ended_ = false;
    return HostFiller::take_checksum(fence);
  }
  // Any thread.
  bool has_open() const { return open_ != 0; }
  void end() {
    ended_ = true;
    wake_.signal();
  }
  int looks() const { return looks_; }  // At what is reached.

 private:
  static EventFd make_wake() {
    auto made = EventFd::create();
    CHECK(made);
    return *std::move(made);
  }

  const EventFd wake_ = make_wake();
  std::atomic<std::uint64_t> open_ = 0;  // Its fence.
  std::atomic<bool> ended_ = false;
  std::atomic<int> looks_ = 0;
};

// It ends when the next one has just been refused.
class EndsAfterARefusal final : public OneSumAtATime {
 public:
  void flush() override {
    if (has_open()) end();
  }
};

// While the next one is refused, the socket to the service fills up. It is emptied when the one before has ended and was told
// of, just before the loop looks what else there is to do.
class FillsTheSocket final : public OneSumAtATime {
 public:
  FillsTheSocket(const int& socket, const WriterChannel& service) : socket_(socket), service_(service) {}
  Result<FenceId> checksum(FrameId frame) override {
    const Result<FenceId> fence = OneSumAtATime::checksum(frame);
    if (fence || filled_ > 0) return fence;
    int count = 0;
    while (::send(socket_, "", 1, MSG_DONTWAIT) == 1) ++count;
    looks_before_ = looks();
    filled_ = count;
    return fence;
  }
  void flush() override {
    char byte;
    if (!has_open() && looks_since() > 1)
      while (filled_ > emptied_ && ::recv(service_.fd(), &byte, 1, MSG_DONTWAIT) == 1) ++emptied_;
  }
  bool waits() const { return filled_ > 0 && looks_since() == 1; }
  bool is_empty_again() const { return filled_ > 0 && emptied_ == filled_; }

 private:
  int looks_since() const { return looks() - looks_before_; }

  const int& socket_;
  const WriterChannel& service_;
  std::atomic<int> looks_before_ = 0;
  std::atomic<int> filled_ = 0, emptied_ = 0;
};

class WriterLoopWithRoomForOne : public WriterLoopTest {
 protected:
  void SetUp() override {
    filler_ = std::make_unique<EndsAfterARefusal>();
    WriterLoopTest::SetUp();
  }
};

TEST_F(WriterLoopWithRoomForOne, WhatWasRefusedGoesOnThoughItsRoomCameBeforeTheWait) {
  const SharedMemory frame(frame_bytes, std::byte{9});
  map_fresh(FrameId{1}, frame, 1);
  expect_reached(1);
  std::array<WriterCommand, 3> sums;
  for (std::uint64_t at = 0; at < sums.size(); ++at)
    sums[at] = {.op = WriterOp::checksum, .frame = FrameId{1}, .fence = FenceId{2 + at}};
  ASSERT_TRUE(service_.send(sums, {}));
  for (const WriterCommand& sum : sums) {
    const WriterAnswer answer = next();
    EXPECT_EQ(answer.kind, WriterAnswerKind::checksum);
    EXPECT_EQ(answer.fence, sum.fence);
    EXPECT_EQ(answer.value, checksum(frame.memory.bytes()));
    expect_reached(raw(sum.fence));
  }
}

class WriterLoopWithAFullSocket : public WriterLoopTest {
 protected:
  void SetUp() override {
    auto filler = std::make_unique<FillsTheSocket>(writer_socket_, service_);
    busy_ = filler.get();
    filler_ = std::move(filler);
    WriterLoopTest::SetUp();
  }
  FillsTheSocket* busy_ = nullptr;
};

TEST_F(WriterLoopWithAFullSocket, WhatWasRefusedGoesOnThoughItsRoomCameWhileAnswersWaited) {
  const SharedMemory frame(frame_bytes, std::byte{9});
  map_fresh(FrameId{1}, frame, 1);
  expect_reached(1);
  const std::array<WriterCommand, 3> commands{
      WriterCommand{.op = WriterOp::checksum, .frame = FrameId{1}, .fence = FenceId{2}},
      WriterCommand{.op = WriterOp::ping},
      WriterCommand{.op = WriterOp::checksum, .frame = FrameId{1}, .fence = FenceId{3}}};
  ASSERT_TRUE(service_.send(commands, {}));
  ASSERT_TRUE(eventually([&] { return busy_->waits(); }));
  busy_->end();
  ASSERT_TRUE(eventually([&] { return busy_->is_empty_again(); }));
  EXPECT_EQ(next().kind, WriterAnswerKind::pong);
  EXPECT_EQ(next().kind, WriterAnswerKind::checksum);
  expect_reached(2);
  ASSERT_TRUE(eventually([&] { return busy_->has_open(); })) << "the second one goes on";
  busy_->end();
  EXPECT_EQ(next().kind, WriterAnswerKind::checksum);
  expect_reached(3);
}

}  // namespace
}  // namespace penstock
