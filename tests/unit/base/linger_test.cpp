// SPDX-License-Identifier: Apache-2.0
#include "dataplane/base/linger.hpp"

#include <gtest/gtest.h>

namespace penstock {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

TEST(Linger, LastsASpanAfterEachBeginningOfABurst) {
  Linger linger(microseconds(50));
  EXPECT_FALSE(linger.lingers(Nanoseconds{0}));
  linger.begin(milliseconds(1));
  EXPECT_FALSE(linger.lingers(milliseconds(1)));  // Alone: nothing says that more will come.
  linger.begin(milliseconds(2));
  EXPECT_TRUE(linger.lingers(milliseconds(2)));
  EXPECT_TRUE(linger.lingers(milliseconds(2) + microseconds(49)));
  EXPECT_FALSE(linger.lingers(milliseconds(2) + microseconds(50)));
  linger.begin(milliseconds(4));
  EXPECT_TRUE(linger.lingers(milliseconds(4)));
  linger.begin(milliseconds(7));
  EXPECT_FALSE(linger.lingers(milliseconds(7)));
}

TEST(Linger, RestsWhenSomebodyElseKeptTheProcessor) {
  Linger linger(microseconds(50));
  linger.begin(milliseconds(0));
  linger.begin(milliseconds(1));
  linger.yielded(milliseconds(1), milliseconds(1) + microseconds(10));  // A client that maps its page.
  EXPECT_TRUE(linger.lingers(milliseconds(1) + microseconds(10)));
  linger.yielded(milliseconds(1), milliseconds(4));  // 3 ms lost: rests for 150.
  EXPECT_FALSE(linger.lingers(milliseconds(1) + microseconds(20)));
  linger.begin(milliseconds(152));
  linger.begin(milliseconds(153));
  EXPECT_FALSE(linger.lingers(milliseconds(153)));
  linger.begin(milliseconds(154));
  EXPECT_TRUE(linger.lingers(milliseconds(154)));
}

TEST(Linger, DoesNotExistWithoutASpan) {
  Linger linger(Nanoseconds{0});
  linger.begin(milliseconds(1));
  linger.begin(milliseconds(1));
  EXPECT_FALSE(linger.lingers(milliseconds(1)));
}

}  // namespace
}  // namespace penstock
