// SPDX-License-Identifier: Apache-2.0
#include "exporters/http_endpoint.hpp"

#include <atomic>

#include <gtest/gtest.h>
#include <boost/asio/io_context.hpp>

#include "exporters/collector.hpp"
#include "tests/unit/exporters/served_endpoint.hpp"
#include "tests/unit/exporters/strict_page.hpp"

namespace penstock {
namespace {

using test::body_of;
using test::get;
using test::Peer;
using test::ServedEndpoint;

std::vector<HttpRoute> routes(std::function<std::optional<std::string>()> not_ready = [] {
  return std::nullopt;
}) {
  return health_routes(
      {.metrics_page = [] { return Collector({.version = "1"}).page(); }, .not_ready = std::move(not_ready)});
}

bool has(std::string_view answer, std::string_view part) {
  return answer.find(part) != std::string_view::npos;
}

TEST(HttpEndpoint, ServesAPageThatParses) {
  const ServedEndpoint served(routes());
  const std::string answer = get(served.port(), "/metrics");
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 200 OK\r\n")) << answer;
  EXPECT_TRUE(has(answer, "\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n")) << answer;
  const test::StrictPage page(body_of(answer));
  EXPECT_EQ(page.error(), "");
  EXPECT_EQ(page.value("penstock_build_info{version=\"1\"}"), 1);
}

TEST(HttpEndpoint, SaysWhetherItLivesAndWhetherItIsReady) {
  std::atomic<bool> ready = false;
  const ServedEndpoint served(routes(
      [&] { return ready ? std::nullopt : std::optional<std::string>("the devices are not open yet"); }));
  EXPECT_TRUE(get(served.port(), "/healthz").starts_with("HTTP/1.1 200 "));
  const std::string early = get(served.port(), "/readyz");
  EXPECT_TRUE(early.starts_with("HTTP/1.1 503 ")) << early;
  EXPECT_EQ(body_of(early), "the devices are not open yet\n");
  ready = true;
  EXPECT_EQ(body_of(get(served.port(), "/readyz?verbose=1")), "ready\n");
  ready = false;
  EXPECT_TRUE(get(served.port(), "/readyz").starts_with("HTTP/1.1 503 "));
}

TEST(HttpEndpoint, AnswersHeadWithoutABody) {
  const ServedEndpoint served(routes());
  Peer peer(served.port());
  peer.send("HEAD /healthz HTTP/1.1\r\nHost: x\r\n\r\n");
  const auto answer = peer.receive_answer(true);
  ASSERT_TRUE(answer);
  EXPECT_TRUE(has(*answer, "\r\nContent-Length: 3\r\n")) << *answer;
  peer.send("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n");
  const auto next = peer.receive_answer();
  ASSERT_TRUE(next);
  EXPECT_TRUE(next->starts_with("HTTP/1.1 200 OK")) << *next;
  EXPECT_EQ(body_of(*next), "ok\n");
}

TEST(HttpEndpoint, RefusesOtherPathsMethodsAndGrammar) {
  const ServedEndpoint served(routes());
  const std::string lost = get(served.port(), "/metric");
  EXPECT_TRUE(lost.starts_with("HTTP/1.1 404 ")) << lost;
  EXPECT_EQ(body_of(lost), "not found; there are: /metrics /healthz /readyz\n");
  const auto sent = [&](std::string_view text) {
    const Peer peer(served.port());
    peer.send(text);
    return peer.receive_all().value_or("");
  };
  const std::string posted = sent("POST /metrics HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello");
  EXPECT_TRUE(posted.starts_with("HTTP/1.1 405 ")) << posted;
  EXPECT_TRUE(has(posted, "\r\nAllow: GET, HEAD\r\n")) << posted;
  EXPECT_TRUE(sent("nonsense\r\n\r\n").starts_with("HTTP/1.1 400 "));
  EXPECT_TRUE(sent("GET /metrics HTTP/1.1\r\nA: " + std::string(20'000, 'a')).starts_with("HTTP/1.1 431 "));
  EXPECT_TRUE(sent("GET /healthz HTTP/1.0\r\n\r\n").starts_with("HTTP/1.1 200 "));
  EXPECT_TRUE(sent("GET /healthz HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc").starts_with("HTTP/1.1 200 "));
  EXPECT_TRUE(get(served.port(), "/healthz").starts_with("HTTP/1.1 200 "));
}

TEST(HttpEndpoint, AnswersRequestsThatComeAtOnceInTheirOrder) {
  const ServedEndpoint served(routes());
  Peer peer(served.port());
  std::string many;
  for (int i = 0; i < 50; ++i) many += "GET /healthz HTTP/1.1\r\n\r\nGET /none HTTP/1.1\r\n\r\n";
  peer.send(many);
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE(peer.receive_answer().value_or("").starts_with("HTTP/1.1 200 "));
    ASSERT_TRUE(peer.receive_answer().value_or("").starts_with("HTTP/1.1 404 "));
  }
  EXPECT_EQ(served.counts().requests, 100u);
  EXPECT_EQ(served.counts().connections, 1u);
}

TEST(HttpEndpoint, TakesARequestInSinglePieces) {
  const ServedEndpoint served(routes());
  Peer peer(served.port());
  for (const char c : std::string_view("GET /healthz HTTP/1.1\r\n\r\n")) peer.send({&c, 1});
  EXPECT_EQ(body_of(peer.receive_answer().value_or("")), "ok\n");
}

TEST(HttpEndpoint, EndsItsConnectionsWhenItIsClosed) {
  ServedEndpoint served(routes());
  Peer mute(served.port()), idle(served.port());
  idle.send("GET /healthz HTTP/1.1\r\n\r\n");
  ASSERT_TRUE(idle.receive_answer());
  ASSERT_TRUE(served.reaches([](const HttpCounts& counts) { return counts.connections == 2; }));
  served.close();
  EXPECT_EQ(mute.receive_all(), "");
  EXPECT_EQ(idle.receive_all(), "");
  EXPECT_FALSE(Peer(served.port()).connected());
}

TEST(HttpEndpoint, MayBeDestroyedBeforeItEverRan) {
  boost::asio::io_context context;
  auto endpoint = HttpEndpoint::open(context, {.address = "127.0.0.1"}, routes());
  ASSERT_TRUE(endpoint);
  const Peer waiting((*endpoint)->port());
  endpoint->reset();
}

}  // namespace
}  // namespace penstock
