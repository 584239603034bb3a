// SPDX-License-Identifier: Apache-2.0
#include "service/client/status.hpp"

#include <cctype>
#include <string>
#include <thread>

#include <gtest/gtest.h>

namespace penstock {
namespace {

TEST(Status, EachKindOfFailureHasItsNumberAndName) {
  int count = 0;
#define X(name)                                      \
  ++count;                                           \
  EXPECT_NE(to_status(FailureKind::name), PST_DONE); \
  EXPECT_STREQ(status_name(to_status(FailureKind::name)), #name);
  PENSTOCK_FAILURE_KINDS(X)
#undef X
  EXPECT_GT(count, 50);
}

TEST(Status, NumbersOfTheInterfaceStayAsTheyAre) {
  EXPECT_EQ(PST_LFS_POINTER, 1);
  EXPECT_EQ(PST_NOT_A_FILE, 24);
  EXPECT_EQ(PST_OFFLOADED, 64);
  EXPECT_EQ(PST_WOULD_DEADLOCK, 75);
  EXPECT_EQ(PST_UNREACHABLE, 96);
  EXPECT_EQ(PST_FORKED, 101);
  EXPECT_EQ(PST_UNPINNED, 109);
  EXPECT_EQ(PST_INTERNAL, 112);
}

TEST(Status, ANumberThatIsNoneHasNoName) {
  EXPECT_STREQ(status_name(PST_DONE), "done");
  EXPECT_EQ(status_name(50), nullptr);
  EXPECT_EQ(status_name(-1), nullptr);
}

TEST(Status, TheLastTextBelongsToAThreadAndAClient) {
  const int client = 0, other = 0;
  EXPECT_EQ(report(&client, Failure{FailureKind::quota, "mine", "less"}), PST_QUOTA);
  EXPECT_EQ(report(&other, Failure{FailureKind::closing, "theirs", ""}), PST_CLOSING);
  EXPECT_STREQ(last_message(&client), "mine");
  EXPECT_STREQ(last_hint(&client), "less");
  EXPECT_STREQ(last_message(&other), "theirs");
  std::thread([&] { EXPECT_STREQ(last_message(&client), ""); }).join();
}

}  // namespace
}  // namespace penstock
