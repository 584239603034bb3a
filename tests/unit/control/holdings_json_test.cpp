// SPDX-License-Identifier: Apache-2.0
#include "service/control/holdings_json.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace penstock {
namespace {

using enum wire::HoldingKind;
using wire::Holding;
using wire::HoldingPlace;
using Json = nlohmann::json;

const std::vector<std::string> devices = {"host", "cuda-0123abcd"};

Holding on_device(wire::HoldingKind kind, std::uint32_t device, std::uint64_t bytes) {
  return {kind, HoldingPlace::device, device, bytes};
}
Holding in(wire::HoldingKind kind, HoldingPlace place, std::uint64_t bytes) {
  return {kind, place, std::nullopt, bytes};
}

TEST(HoldingsJson, ShowsWhatWasSaidByKindAndPlaceAndNothingElse) {
  const Json kinds =
      kinds_json({on_device(weights, 0, 1), on_device(weights, 1, 2),
                  in(weights, HoldingPlace::locked_host, 3), in(weights, HoldingPlace::disk, 0),
                  in(results, HoldingPlace::anonymous, 4), in(other, HoldingPlace::page_cache, 5)},
                 devices, nullptr);
  EXPECT_EQ(kinds, Json::parse(R"({
    "weights": {"devices": {"host": 1, "cuda-0123abcd": 2}, "locked_host_bytes": 3, "disk_bytes": 0},
    "results": {"anonymous_bytes": 4}, "other": {"page_cache_bytes": 5}})"));
  EXPECT_EQ(kinds_json({}, devices, nullptr), Json::object());
}

TEST(HoldingsJson, AnonymousMemoryThatNoKindAccountsForIsOther) {
  ProcessMemory process{.anonymous = 100, .swapped = 20};
  const auto other_bytes = [&](std::vector<Holding> holdings) {
    return kinds_json(holdings, devices, &process).at("other").at("anonymous_bytes");
  };
  EXPECT_EQ(other_bytes({}), 120);
  EXPECT_EQ(other_bytes({in(weights, HoldingPlace::anonymous, 50), in(state, HoldingPlace::anonymous, 10)}),
            60);
  EXPECT_EQ(other_bytes({in(weights, HoldingPlace::anonymous, 500)}), 0);  // Never below nothing.
  EXPECT_EQ(other_bytes({in(weights, HoldingPlace::locked_host, 50)}), 120);
  EXPECT_EQ(other_bytes({in(other, HoldingPlace::anonymous, 7)}), 7);  // It knows better.
  process.anonymous.reset();
  EXPECT_FALSE(kinds_json({}, devices, &process).contains("other"));
}

TEST(HoldingsJson, LeavesOutWhatTheKernelDoesNotTell) {
  EXPECT_EQ(process_json({}), Json::object());
  EXPECT_EQ(
      process_json({.anonymous = 1, .locked = 0, .swapped = 3, .compressed = 2}),
      Json::parse(R"({"anonymous_bytes": 1, "locked_bytes": 0, "swapped_bytes": 3, "compressed_bytes": 2})"));
}

}  // namespace
}  // namespace penstock
