// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <filesystem>
#include <vector>

#include <gtest/gtest.h>
#include <sys/socket.h>

#include "dataplane/base/memfd.hpp"
#include "dataplane/writer/writer_channel.hpp"

namespace penstock {
namespace {

std::size_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

class WriterChannelTest : public testing::Test {
 protected:
  void SetUp() override {
    auto ends = WriterChannel::make_pair();
    ASSERT_TRUE(ends.has_value());
    service_ = std::move(ends->first);
    writer_ = WriterChannel(std::move(ends->second));
  }

  WriterChannel service_, writer_;
  ReceivedCommands commands_;
  ReceivedAnswers answers_;
};

TEST_F(WriterChannelTest, DescriptorsArriveWithTheirCommands) {
  const Result<UniqueFd> small = create_memfd("small", 4096);
  const Result<UniqueFd> large = create_memfd("large", 8192);
  ASSERT_TRUE(small && large);
  const std::vector<WriterCommand> sent = {{.op = WriterOp::map, .frame = FrameId{1}},
                                           {.op = WriterOp::copy, .frame = FrameId{1}},
                                           {.op = WriterOp::map, .frame = FrameId{2}}};
  ASSERT_TRUE(service_.send(sent, std::vector<int>{small->get(), large->get()}));
  ASSERT_TRUE(writer_.receive(commands_));
  ASSERT_EQ(commands_.count, 3u);
  EXPECT_EQ(*size_of(commands_.descriptors[0].get()), 4096u);
  EXPECT_FALSE(commands_.descriptors[1]);
  EXPECT_EQ(*size_of(commands_.descriptors[2].get()), 8192u);
  EXPECT_EQ(commands_.commands[2].frame, FrameId{2});
}

TEST_F(WriterChannelTest, AMissingDescriptorIsAViolationAndNothingStaysOpen) {
  const Result<UniqueFd> file = create_memfd("one", 4096);
  ASSERT_TRUE(file);
  const std::size_t before = open_descriptors();
  const std::vector<WriterCommand> sent = {{.op = WriterOp::map}, {.op = WriterOp::map}};
  ASSERT_TRUE(service_.send(sent, std::vector<int>{file->get()}));
  const Result<> received = writer_.receive(commands_);
  ASSERT_FALSE(received);
  EXPECT_EQ(received.error().code, Errc::protocol);
  EXPECT_EQ(commands_.count, 0u);
  for (UniqueFd& descriptor : commands_.descriptors) descriptor.reset();
  EXPECT_EQ(open_descriptors(), before);
}

TEST_F(WriterChannelTest, AnUnknownWordIsAViolation) {
  WriterCommand command;
  const std::uint8_t unknown = 200;
  std::memcpy(reinterpret_cast<std::byte*>(&command), &unknown, 1);
  ASSERT_TRUE(service_.send(std::span(&command, 1), {}));
  EXPECT_EQ(writer_.receive(commands_).error().code, Errc::protocol);
  WriterAnswer answer;
  std::memcpy(reinterpret_cast<std::byte*>(&answer), &unknown, 1);
  ASSERT_TRUE(writer_.send(std::span(&answer, 1)));
  EXPECT_EQ(service_.receive(answers_).error().code, Errc::protocol);
}

TEST_F(WriterChannelTest, AMessageOfAnotherLengthIsAViolation) {
  ASSERT_EQ(::send(writer_.fd(), "seven b", 7, 0), 7);
  EXPECT_EQ(service_.receive(answers_).error().code, Errc::protocol);
  const std::vector<char> long_one(sizeof(WriterAnswer) * (writer_answers_max + 1));
  ASSERT_GT(::send(writer_.fd(), long_one.data(), long_one.size(), 0), 0);
  EXPECT_EQ(service_.receive(answers_).error().code, Errc::protocol);
}

TEST_F(WriterChannelTest, AnAnswerBringsNoDescriptors) {
  const Result<UniqueFd> file = create_memfd("one", 4096);
  ASSERT_TRUE(file);
  // Answers are 32 bytes, commands 48: two commands are as long as three answers.
  const std::vector<WriterCommand> sent = {{.op = WriterOp::stage}, {.op = WriterOp::stage}};
  ASSERT_TRUE(writer_.send(sent, std::vector<int>{file->get()}));
  EXPECT_EQ(service_.receive(answers_).error().code, Errc::protocol);
}

TEST_F(WriterChannelTest, SaysThatItIsFullAndThatTheOtherEndIsGone) {
  const WriterCommand ping;
  Result<> sent;
  for (int i = 0; i < 100'000 && sent; ++i) sent = service_.send(std::span(&ping, 1), {});
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().code, Errc::busy);
  writer_ = WriterChannel();
  EXPECT_EQ(service_.send(std::span(&ping, 1), {}).error().code, Errc::closed);
  EXPECT_EQ(service_.receive(answers_).error().code, Errc::closed);
}

}  // namespace
}  // namespace penstock
