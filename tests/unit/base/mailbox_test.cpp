// SPDX-License-Identifier: Apache-2.0
#include "dataplane/base/mailbox.hpp"

#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <poll.h>

namespace penstock {
namespace {

constexpr int patience_ms = 20'000;

bool readable(int fd, int timeout_ms) {
  pollfd entry{.fd = fd, .events = POLLIN, .revents = 0};
  return ::poll(&entry, 1, timeout_ms) == 1;
}

struct Letter {
  std::uint32_t producer = 0;
  std::uint32_t number = 0;
};

TEST(Mailbox, DeliversInOrderAndThenIsQuiet) {
  auto mailbox = *Mailbox<int>::create(4);
  EXPECT_FALSE(readable(mailbox->fd(), 0));
  EXPECT_TRUE(mailbox->try_push(1));
  EXPECT_TRUE(mailbox->try_push(2));
  EXPECT_TRUE(readable(mailbox->fd(), 0));
  std::vector<int> out;
  mailbox->drain(out);
  EXPECT_EQ(out, (std::vector<int>{1, 2}));
  EXPECT_FALSE(readable(mailbox->fd(), 0));
}

TEST(Mailbox, RefusesWhenFullAndLeavesTheMessageWithItsOwner) {
  auto mailbox = *Mailbox<std::unique_ptr<int>>::create(1);
  EXPECT_TRUE(mailbox->try_push(std::make_unique<int>(1)));
  auto second = std::make_unique<int>(2);
  EXPECT_FALSE(mailbox->try_push(std::move(second)));
  ASSERT_NE(second, nullptr);
  std::vector<std::unique_ptr<int>> out;
  mailbox->drain(out);
  EXPECT_TRUE(mailbox->try_push(std::move(second)));
}

TEST(Mailbox, AppendsToWhatTheConsumerStillHolds) {
  auto mailbox = *Mailbox<int>::create(4);
  std::vector<int> out{7};
  EXPECT_TRUE(mailbox->try_push(8));
  mailbox->drain(out);
  EXPECT_EQ(out, (std::vector<int>{7, 8}));
  out.clear();
  mailbox->drain(out);
  EXPECT_TRUE(out.empty());
}

TEST(Mailbox, AllocatesNothingOnceBothBuffersExist) {
  auto mailbox = *Mailbox<int>::create(8);
  std::vector<int> out;
  mailbox->drain(out);
  const int* const first = out.data();
  mailbox->drain(out);
  const int* const second = out.data();
  for (int round = 0; round < 10; ++round) {
    for (int message = 0; message < 8; ++message) EXPECT_TRUE(mailbox->try_push(message));
    out.clear();
    mailbox->drain(out);
    EXPECT_EQ(out.size(), 8u);
    EXPECT_TRUE(out.data() == first || out.data() == second);
  }
}

TEST(Mailbox, CloseWakesTheConsumerAndRefusesProducers) {
  auto mailbox = *Mailbox<int>::create(2);
  EXPECT_TRUE(mailbox->try_push(1));
  mailbox->close();
  EXPECT_TRUE(mailbox->closed());
  EXPECT_FALSE(mailbox->try_push(2));
  EXPECT_TRUE(readable(mailbox->fd(), 0));
  std::vector<int> out;
  mailbox->drain(out);
  EXPECT_EQ(out, std::vector<int>{1});
}

// Runs under ThreadSanitizer: producers meet a full queue all the time, and nothing is lost, doubled or reordered.
TEST(Mailbox, CarriesEveryMessageOfManyProducersOnceAndInTheirOrder) {
  constexpr std::uint32_t producers = 3;
  constexpr std::uint32_t letters = 20'000;
  auto mailbox = *Mailbox<Letter>::create(16);
  std::vector<std::thread> threads;
  for (std::uint32_t producer = 0; producer < producers; ++producer) {
    threads.emplace_back([&mailbox, producer] {
      for (std::uint32_t number = 0; number < letters;) {
        if (mailbox->try_push(Letter{.producer = producer, .number = number})) {
          ++number;
        } else {
          std::this_thread::yield();
        }
      }
    });
  }
  std::vector<std::uint32_t> next(producers, 0);
  std::vector<Letter> out;
  std::size_t received = 0;
  while (received < producers * letters) {
    ASSERT_TRUE(readable(mailbox->fd(), patience_ms)) << "a message waits without a wake-up";
    out.clear();
    mailbox->drain(out);
    ASSERT_LE(out.size(), mailbox->capacity());
    for (const Letter& letter : out) ASSERT_EQ(letter.number, next[letter.producer]++);
    received += out.size();
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(received, producers * letters);
}

}  // namespace
}  // namespace penstock
