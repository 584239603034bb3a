// SPDX-License-Identifier: Apache-2.0
#include "dataplane/base/event_fd.hpp"

#include <thread>

#include <gtest/gtest.h>
#include <poll.h>

namespace penstock {
namespace {

TEST(EventFd, FoldsSignalsIntoOne) {
  const EventFd event = *EventFd::create();
  EXPECT_FALSE(event.consume());
  event.signal();
  event.signal();
  EXPECT_TRUE(event.consume());
  EXPECT_FALSE(event.consume());
}

TEST(EventFd, WakesAThreadThatPolls) {
  const EventFd event = *EventFd::create();
  std::thread other([&event] { event.signal(); });
  pollfd entry{.fd = event.fd(), .events = POLLIN, .revents = 0};
  EXPECT_EQ(::poll(&entry, 1, 20'000), 1);
  other.join();
}

}  // namespace
}  // namespace penstock
