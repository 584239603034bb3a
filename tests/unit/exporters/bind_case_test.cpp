// SPDX-License-Identifier: Apache-2.0
// The case of a metrics port that can't be had, at the endpoint.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <boost/asio/io_context.hpp>

#include "tests/unit/exporters/served_endpoint.hpp"

namespace penstock {
namespace {

using test::get;
using test::ServedEndpoint;

std::vector<HttpRoute> routes() {
  return health_routes(
      {.metrics_page = [] { return std::string(); }, .not_ready = [] { return std::nullopt; }});
}

// A listener of somebody else.
struct Dummy {
  explicit Dummy(std::uint32_t address) : fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(address);
    socklen_t size = sizeof(at);
    listens = ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&at), size) == 0 &&
              ::listen(fd.get(), 1) == 0 &&
              ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&at), &size) == 0;
    port = ntohs(at.sin_port);
  }
  UniqueFd fd;
  std::uint16_t port = 0;
  bool listens = false;
};

Failure failure_of(const std::string& address, std::uint16_t port) {
  boost::asio::io_context context;
  const auto opened = HttpEndpoint::open(context, {.address = address, .port = port, .limits = {}}, routes());
  return opened ? Failure{FailureKind::internal, "listens at " + (*opened)->address(), ""} : opened.error();
}

TEST(CaseS03, ATakenPortIsAFailureThatNamesAddressAndPort) {
  const Dummy dummy(INADDR_LOOPBACK);
  ASSERT_TRUE(dummy.listens);
  const Failure failure = failure_of("127.0.0.1", dummy.port);
  EXPECT_EQ(failure.kind, FailureKind::busy);
  EXPECT_EQ(failure.message, "address 127.0.0.1:" + std::to_string(dummy.port) + ": address already in use");
  EXPECT_EQ(failure_of("0.0.0.0", dummy.port).kind, FailureKind::busy);
}

TEST(CaseS03, APortTakenInOneProtocolIsNotSharedWithTheOther) {
  const Dummy dummy(INADDR_ANY);
  ASSERT_TRUE(dummy.listens);
  const Failure failure = failure_of("::", dummy.port);
  if (failure.kind == FailureKind::internal && failure.message.find("error number 97") != std::string::npos)
    GTEST_SKIP() << "requires IPv6";
  EXPECT_EQ(failure.kind, FailureKind::busy);
  EXPECT_EQ(failure.message, "address [::]:" + std::to_string(dummy.port) + ": address already in use");
}

TEST(CaseS03, TwoOfUsDoNotShareAPort) {
  const ServedEndpoint served(routes());
  EXPECT_EQ(failure_of("127.0.0.1", served.port()).kind, FailureKind::busy);
  EXPECT_TRUE(get(served.port(), "/healthz").starts_with("HTTP/1.1 200 "));
}

TEST(CaseS03, AnAddressOfAnotherHostIsAFailure) {
  const Failure failure = failure_of("192.0.2.1", 9836);
  EXPECT_EQ(failure.kind, FailureKind::invalid_argument);
  EXPECT_EQ(failure.message, "address 192.0.2.1:9836: not an address of this host");
  EXPECT_EQ(failure_of("nonsense", 1).kind, FailureKind::invalid_argument);
}

TEST(CaseS03, PortZeroChoosesOneAndTellsIt) {
  const ServedEndpoint one(routes()), other(routes());
  EXPECT_NE(one.port(), 0);
  EXPECT_NE(one.port(), other.port());
  EXPECT_EQ(one.address(), "127.0.0.1:" + std::to_string(one.port()));
  EXPECT_TRUE(get(one.port(), "/healthz").starts_with("HTTP/1.1 200 "));
}

TEST(CaseS03, ARestartAtOnceWorksThoughOldConnectionsLinger) {
  std::uint16_t port = 0;
  for (int restart = 0; restart < 5; ++restart) {
    // The endpoint closes its side first, so the kernel keeps the pair of addresses for a minute.
    const ServedEndpoint served(routes(), {}, port);
    ASSERT_TRUE(port == 0 || served.port() == port);
    port = served.port();
    ASSERT_TRUE(get(port, "/healthz").starts_with("HTTP/1.1 200 "));
  }
}

}  // namespace
}  // namespace penstock
