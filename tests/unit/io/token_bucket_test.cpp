// SPDX-License-Identifier: Apache-2.0
#include "dataplane/io/token_bucket.hpp"

#include <gtest/gtest.h>

namespace penstock::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(TokenBucket, NeverLimitsWithoutARate) {
  TokenBucket bucket(0);
  bucket.advance(seconds(1));
  bucket.take(UINT64_MAX / 2);
  EXPECT_TRUE(bucket.ready());
}

TEST(TokenBucket, GivesTheRateOverTime) {
  TokenBucket bucket(1'000'000);
  Nanoseconds now = seconds(1000);
  std::uint64_t taken = 0;
  for (const Nanoseconds end = now + seconds(10); now < end;) {
    bucket.advance(now);
    if (bucket.ready()) {
      bucket.take(250'000);
      taken += 250'000;
      continue;
    }
    ASSERT_GT(bucket.ready_at(), now);
    now = bucket.ready_at();
  }
  EXPECT_GE(taken, 10'000'000u);
  EXPECT_LE(taken, 10'000'000u + 100'000 + 2 * 250'000);  // The burst, and one debt at either end.
}

TEST(TokenBucket, LetsOneReadThroughThatIsLargerThanTheBurst) {
  TokenBucket bucket(1000);
  bucket.advance(seconds(1));
  ASSERT_TRUE(bucket.ready());
  bucket.take(1'000'000);
  bucket.advance(seconds(2));
  EXPECT_FALSE(bucket.ready());
  EXPECT_NEAR(std::chrono::duration<double>(bucket.ready_at()).count(), 1001, 1);
}

TEST(TokenBucket, DoesNotSaveUpMoreThanTheBurst) {
  TokenBucket bucket(1'000'000);
  bucket.advance(seconds(1));
  bucket.advance(seconds(1000));
  bucket.take(100'001);
  EXPECT_FALSE(bucket.ready());
}

TEST(TokenBucket, IgnoresATimeThatGoesBack) {
  TokenBucket bucket(1'000'000);
  bucket.advance(seconds(10));
  bucket.take(200'000);
  bucket.advance(seconds(1));
  bucket.advance(seconds(10) + milliseconds(50));
  EXPECT_FALSE(bucket.ready());
  bucket.advance(seconds(10) + milliseconds(101));
  EXPECT_TRUE(bucket.ready());
}

}  // namespace
}  // namespace penstock::test
