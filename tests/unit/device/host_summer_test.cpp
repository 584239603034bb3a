// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <gtest/gtest.h>

#include "dataplane/base/mapping.hpp"
#include "dataplane/base/memfd.hpp"
#include "dataplane/device/host/host_frame_summer.hpp"
#include "dataplane/kernels/convert.hpp"
#include "tests/support/eventually.hpp"

namespace penstock {
namespace {

constexpr std::uint64_t frame_bytes = 256 * 1024;

std::optional<std::uint64_t> wait_for(HostFrameSummer& summer) {
  std::optional<Result<std::uint64_t>> answer;
  EXPECT_TRUE(eventually([&] { return (answer = summer.take()).has_value(); }));
  return answer && *answer ? std::optional(**answer) : std::nullopt;
}

TEST(HostFrameSummer, SumsUpWhatTheOwnerWrote) {
  auto file = create_memfd("frame", frame_bytes);
  ASSERT_TRUE(file);
  auto memory = Mapping::shared(file->get(), frame_bytes, Access::read_write);
  ASSERT_TRUE(memory);
  HostFrameSummer summer;
  for (const int value : {0, 7}) {
    std::ranges::fill(memory->bytes(), static_cast<std::byte>(value));
    ASSERT_TRUE(summer.start(FrameId{}, file->get(), frame_bytes));
    EXPECT_EQ(wait_for(summer), checksum(memory->bytes()));
  }
}

TEST(HostFrameSummer, TakesOneFrameAtATimeAndAnswersOnce) {
  auto file = create_memfd("frame", frame_bytes);
  ASSERT_TRUE(file);
  HostFrameSummer summer;
  EXPECT_FALSE(summer.take());
  ASSERT_TRUE(summer.start(FrameId{}, file->get(), frame_bytes));
  const Result<> second = summer.start(FrameId{}, file->get(), frame_bytes);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Errc::busy);
  EXPECT_TRUE(wait_for(summer));
  EXPECT_FALSE(summer.take());
  EXPECT_TRUE(summer.start(FrameId{}, file->get(), frame_bytes));
}

TEST(HostFrameSummer, GoesOnWhenTheFrameIsClosed) {
  auto file = create_memfd("frame", frame_bytes);
  ASSERT_TRUE(file);
  HostFrameSummer summer;
  ASSERT_TRUE(summer.start(FrameId{}, file->get(), frame_bytes));
  file->reset();
  EXPECT_EQ(wait_for(summer), checksum(std::vector<std::byte>(frame_bytes)));
}

TEST(HostFrameSummer, SaysWhatItCannotMap) {
  HostFrameSummer summer;
  EXPECT_FALSE(summer.start(FrameId{}, -1, frame_bytes));
  auto file = create_memfd("frame", frame_bytes);
  ASSERT_TRUE(file);
  ASSERT_TRUE(summer.start(FrameId{}, file->get(), 0));
  EXPECT_EQ(wait_for(summer), std::nullopt);
}

}  // namespace
}  // namespace penstock
