// SPDX-License-Identifier: Apache-2.0
// WriterLoopTest: the writer's loop on a thread of the test, over a filler that the test chooses, with the test in the place
// of the service.
#pragma once

#include <cstring>
#include <future>
#include <memory>

#include <gtest/gtest.h>

#include "dataplane/base/check.hpp"
#include "dataplane/base/memfd.hpp"
#include "dataplane/writer/host_filler.hpp"
#include "dataplane/writer/writer_loop.hpp"
#include "tests/support/drive_device.hpp"

namespace penstock {

inline constexpr std::uint64_t frame_bytes = 16 * 4096;

struct SharedMemory {
  explicit SharedMemory(std::uint64_t bytes, std::byte content = std::byte{0}) {
    auto made = create_memfd("memory", bytes);
    CHECK(made.has_value());
    file = *std::move(made);
    auto mapped = Mapping::shared(file.get(), bytes, Access::read_write);
    CHECK(mapped.has_value());
    memory = *std::move(mapped);
    std::memset(memory.data(), static_cast<int>(content), bytes);
  }
  UniqueFd file;
  Mapping memory;
};

class WriterLoopTest : public testing::Test {
 protected:
  void SetUp() override {
    auto ends = WriterChannel::make_pair();
    ASSERT_TRUE(ends.has_value());
    service_ = std::move(ends->first);
    writer_socket_ = ends->second.get();
    ended_ = std::async(std::launch::async, [this, socket = std::move(ends->second)]() mutable {
      WriterLoop loop(WriterChannel(std::move(socket)), std::move(filler_));
      return loop.run();
    });
    EXPECT_EQ(next().kind, WriterAnswerKind::ready);
  }
  void TearDown() override { service_ = WriterChannel(); }

  void say(const WriterCommand& command, int descriptor = -1) {
    ASSERT_TRUE(service_.send(std::span(&command, 1), std::span(&descriptor, descriptor < 0 ? 0 : 1)));
  }
  WriterAnswer next() {
    if (read_ == received_.count) {
      read_ = 0;
      CHECK(wait_readable(service_.fd()));
      CHECK(service_.receive(received_).has_value());
    }
    return received_.answers[read_++];
  }
  void map_fresh(FrameId frame, const SharedMemory& memory, std::uint64_t fence) {
    say({.op = WriterOp::map, .fresh = true, .frame = frame, .fence = FenceId{fence}, .bytes = frame_bytes},
        memory.file.get());
  }
  // Both to be copied from, the second one as `source`; frame 1 to be copied to. Takes fences 1 and 2.
  void offer(const SharedMemory& frame, const SharedMemory& staging, const SharedMemory& more,
             SourceId source) {
    say({.op = WriterOp::stage, .bytes = staging.memory.size()}, staging.file.get());
    map_fresh(FrameId{1}, frame, 1);
    expect_reached(1);
    say({.op = WriterOp::add_source, .fence = FenceId{2}, .bytes = more.memory.size(), .source = source},
        more.file.get());
    expect_reached(2);
  }
  void expect_reached(std::uint64_t fence) {
    const WriterAnswer answer = next();
    EXPECT_EQ(answer.kind, WriterAnswerKind::reached);
    EXPECT_EQ(answer.fence, FenceId{fence});
  }
  void expect_end() {
    EXPECT_EQ(next().kind, WriterAnswerKind::failed);
    EXPECT_FALSE(ended_.get().has_value());
  }

  std::unique_ptr<HostFiller> filler_ = std::make_unique<HostFiller>();  // Until SetUp.
  int writer_socket_ = -1;                                               // The loop's.
  WriterChannel service_;
  std::future<Result<>> ended_;
  ReceivedAnswers received_;
  std::size_t read_ = 0;
};

}  // namespace penstock
