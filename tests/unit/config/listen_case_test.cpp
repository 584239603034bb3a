// SPDX-License-Identifier: Apache-2.0
// The configuration's part of the case of a metrics port that can't be had.
#include <gtest/gtest.h>

#include "tests/unit/config/read_config.hpp"

namespace penstock {
namespace {

using test::read_config;
using test::verdict;

std::optional<ListenAddress> listen(std::string_view text) {
  return read_config("[metrics]\nlisten = \"" + std::string(text) + "\"\n")->metrics.listen;
}

TEST(CaseS03, AddressAndPortOfTheMetricsAreRead) {
  EXPECT_EQ(listen("0.0.0.0:80"), (ListenAddress{.address = "0.0.0.0", .port = 80}));
  EXPECT_EQ(listen("127.0.0.1:0"), (ListenAddress{.address = "127.0.0.1", .port = 0}));
  EXPECT_EQ(listen("[::]:65535"), (ListenAddress{.address = "::", .port = 65535}));
  EXPECT_EQ(listen(""), std::nullopt);
  EXPECT_EQ(read_config("")->metrics.listen, (ListenAddress{.address = "127.0.0.1", .port = 9836}));
}

TEST(CaseS03, APortOrAddressThatCannotBeIsAnErrorThatNamesTheKey) {
  for (const std::string_view text :
       {"127.0.0.1:70000", "127.0.0.1:-1", "127.0.0.1:", "127.0.0.1", "127.0.0.1:80x", "127.0.0.1: 80",
        ":9836", "9836", "localhost:9836", "256.0.0.1:80", "127.0.0:80", "::1:80", "[::1]", "[::1]80",
        "[127.0.0.1]:80", "[fe80::1%lo]:80", "127.0.0.1\\u0000:80", "127.0.0.1:18446744073709551617"}) {
    const std::string told = verdict("[metrics]\nlisten = \"" + std::string(text) + "\"\n");
    EXPECT_TRUE(told.starts_with("penstock.toml:2: metrics.listen: ")) << text << " -> " << told;
    EXPECT_NE(told.find("port from 0 to 65535"), std::string::npos) << told;
  }
  EXPECT_NE(verdict("[metrics]\nlisten = 9836\n").find("metrics.listen"), std::string::npos);
}

}  // namespace
}  // namespace penstock
