// SPDX-License-Identifier: Apache-2.0
// What a client says that it holds.
#include "tests/unit/client/scripted_client.hpp"

#include <array>

namespace penstock::test {
namespace {

class Reports : public ScriptedClient {};

pst_holding holding_of(std::uint32_t kind, std::uint32_t place, std::uint64_t bytes) {
  pst_holding holding{};
  holding.size = sizeof holding;
  holding.kind = kind;
  holding.place = place;
  holding.bytes = bytes;
  return holding;
}

TEST_F(Reports, AReportIsPutInOrderAndItsDevicesBecomeNumbers) {
  connect();
  std::array holdings{holding_of(PST_HOLDING_OTHER, PST_PLACE_ANONYMOUS, 3),
                      holding_of(PST_HOLDING_WEIGHTS, PST_PLACE_DISK, 2),
                      holding_of(PST_HOLDING_WEIGHTS, PST_PLACE_DEVICE, 1)};
  ASSERT_EQ(pst_report_holdings(client, holdings.data(), 3, second), PST_DONE);
  const auto report = service.asked<wire::Report>();
  ASSERT_TRUE(report && report->holdings.size() == 3);
  EXPECT_EQ(report->holdings[0].device, 0u);
  EXPECT_EQ(report->holdings[0].bytes, 1u);
  EXPECT_EQ(report->holdings[1].place, wire::HoldingPlace::disk);
  EXPECT_EQ(report->holdings[2].kind, wire::HoldingKind::other);
  holdings[2].device = "cuda-nowhere";
  EXPECT_EQ(pst_report_holdings(client, holdings.data(), 3, second), PST_NOT_FOUND);
  EXPECT_EQ(pst_report_holdings(client, nullptr, 0, second), PST_DONE);
}

TEST_F(Reports, AReportOfALaterLibraryIsReadByItsOwnSizes) {
  connect();
  struct Longer {
    pst_holding known;
    std::uint64_t later;
  };
  std::array<Longer, 2> holdings{{{holding_of(PST_HOLDING_WORK, PST_PLACE_ANONYMOUS, 5), 77},
                                  {holding_of(PST_HOLDING_CARRY, PST_PLACE_ANONYMOUS, 6), 78}}};
  for (Longer& one : holdings) one.known.size = sizeof one;
  ASSERT_EQ(pst_report_holdings(client, &holdings[0].known, 2, second), PST_DONE);
  EXPECT_EQ(service.asked<wire::Report>()->holdings.at(1).bytes, 6u);
  holdings[1].known.size = sizeof(pst_holding);
  EXPECT_EQ(pst_report_holdings(client, &holdings[0].known, 2, second), PST_INVALID_ARGUMENT);
}

TEST_F(Reports, AReportThatContradictsItselfIsNotSent) {
  connect();
  std::array twice{holding_of(PST_HOLDING_WORK, PST_PLACE_ANONYMOUS, 1),
                   holding_of(PST_HOLDING_WORK, PST_PLACE_ANONYMOUS, 2)};
  EXPECT_EQ(pst_report_holdings(client, twice.data(), 2, second), PST_INVALID_ARGUMENT);
  auto nowhere = holding_of(PST_HOLDING_WORK, PST_PLACE_ANONYMOUS, 1);
  nowhere.device = "host";
  EXPECT_EQ(pst_report_holdings(client, &nowhere, 1, second), PST_INVALID_ARGUMENT);
  const auto unknown = holding_of(PST_HOLDING_OTHER + 1, PST_PLACE_ANONYMOUS, 1);
  EXPECT_EQ(pst_report_holdings(client, &unknown, 1, second), PST_INVALID_ARGUMENT);
  EXPECT_EQ(pst_report_holdings(client, twice.data(), 129, second), PST_INVALID_ARGUMENT);
  const auto good = holding_of(PST_HOLDING_OTHER, PST_PLACE_ANONYMOUS, 9);
  EXPECT_EQ(pst_report_holdings(client, &good, 1, second), PST_DONE);
  EXPECT_EQ(service.asked<wire::Report>()->holdings.at(0).bytes, 9u);  // The first that came.
}

}  // namespace
}  // namespace penstock::test
