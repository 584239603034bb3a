// SPDX-License-Identifier: Apache-2.0
// The case of slow and hostile scrapes.
#include <gtest/gtest.h>

#include "dataplane/base/clock.hpp"
#include "tests/unit/exporters/served_endpoint.hpp"

namespace penstock {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;
using test::get;
using test::Peer;
using test::ServedEndpoint;

constexpr std::string_view request = "GET /large HTTP/1.1\r\nHost: x\r\n\r\n";
constexpr std::size_t large_bytes = 512 * 1024;  // More than the buffers of both sockets take.

std::vector<HttpRoute> routes() {
  std::vector<HttpRoute> routes = health_routes(
      {.metrics_page = [] { return std::string("a_metric 1\n"); }, .not_ready = [] { return std::nullopt; }});
  routes.push_back(
      {.path = "/large", .get = [] { return HttpReply{.body = std::string(large_bytes, 'x')}; }});
  return routes;
}

// A normal scrape, and that it took less than a second.
void expect_scraped(const ServedEndpoint& served) {
  const Nanoseconds begin = monotonic_now();
  EXPECT_TRUE(get(served.port(), "/metrics").starts_with("HTTP/1.1 200 "));
  EXPECT_LT(monotonic_now() - begin, seconds(1));
}

TEST(CaseS02, TwoHundredThatAskAndNeverReadDelayNobodyAndAreDropped) {
  const ServedEndpoint served(routes(), {.answer_time = milliseconds(500)});
  std::vector<Peer> deaf;
  for (int i = 0; i < 200; ++i) {
    deaf.emplace_back(served.port(), 4096);
    deaf.back().send(request);
    if (i % 20 == 0) expect_scraped(served);
  }
  expect_scraped(served);
  EXPECT_TRUE(served.reaches([](const HttpCounts& counts) { return counts.timed_out == 200; }));
  EXPECT_TRUE(served.reaches([](const HttpCounts& counts) { return counts.connections == 0; }));
  expect_scraped(served);
  const std::string cut = deaf[0].receive_all().value_or("");
  EXPECT_TRUE(cut.starts_with("HTTP/1.1 200 "));
  EXPECT_LT(cut.size(), large_bytes);
}

TEST(CaseS02, ARequestThatNeverEndsIsDropped) {
  const ServedEndpoint served(routes(), {.request_time = milliseconds(200)});
  const Peer mute(served.port()), slow(served.port());
  slow.send("G");
  expect_scraped(served);
  EXPECT_EQ(mute.receive_all(), "");
  EXPECT_EQ(slow.receive_all(), "");
  EXPECT_TRUE(served.reaches(
      [](const HttpCounts& counts) { return counts.timed_out == 2 && counts.connections == 0; }));
}

TEST(CaseS02, AnIdleConnectionIsDroppedInTime) {
  const ServedEndpoint served(routes(), {.idle_time = milliseconds(100)});
  Peer idle(served.port());
  idle.send("GET /healthz HTTP/1.1\r\n\r\n");
  ASSERT_TRUE(idle.receive_answer());
  EXPECT_EQ(idle.receive_all(), "");
}

TEST(CaseS02, ConnectionsBeyondTheBoundGet503AndOnesBeyondThatAreClosed) {
  const ServedEndpoint served(
      routes(), {.connections_max = 4, .refusals_max = 1, .request_time = hours(1), .grace = hours(1)});
  std::vector<Peer> mute;
  for (int i = 0; i < 4; ++i) mute.emplace_back(served.port());
  ASSERT_TRUE(served.reaches([](const HttpCounts& counts) { return counts.connections == 4; }));
  Peer refused(served.port());
  ASSERT_TRUE(served.reaches([](const HttpCounts& counts) { return counts.connections == 5; }));
  const Peer closed(served.port());
  EXPECT_EQ(closed.receive_all(), "");
  refused.send("GET /metrics HTTP/1.1\r\n\r\n");
  const auto answer = refused.receive_answer();
  ASSERT_TRUE(answer);
  EXPECT_TRUE(answer->starts_with("HTTP/1.1 503 ")) << *answer;
  EXPECT_EQ(served.counts().refused, 2u);
}

TEST(CaseS02, AnIdleConnectionGivesWayAtOnce) {
  const ServedEndpoint served(routes(), {.connections_max = 2, .request_time = hours(1), .grace = hours(1)});
  const Peer mute(served.port());
  Peer idle(served.port());
  idle.send("GET /healthz HTTP/1.1\r\n\r\n");
  ASSERT_TRUE(idle.receive_answer());
  ASSERT_TRUE(served.reaches([](const HttpCounts& counts) { return counts.connections == 2; }));
  expect_scraped(served);
  EXPECT_EQ(idle.receive_all(), "");
  EXPECT_EQ(served.counts().displaced, 1u);
  EXPECT_EQ(served.counts().refused, 0u);
}

TEST(CaseS02, AConnectionThatKeepsUsWaitingTooLongGivesWay) {
  const ServedEndpoint served(routes(),
                              {.connections_max = 2, .request_time = hours(1), .grace = Nanoseconds(0)});
  const Peer oldest(served.port());
  ASSERT_TRUE(served.reaches([](const HttpCounts& counts) { return counts.connections == 1; }));
  const Peer other(served.port());
  ASSERT_TRUE(served.reaches([](const HttpCounts& counts) { return counts.connections == 2; }));
  expect_scraped(served);
  EXPECT_EQ(oldest.receive_all(), "");
  EXPECT_EQ(served.counts().displaced, 1u);
}

}  // namespace
}  // namespace penstock
