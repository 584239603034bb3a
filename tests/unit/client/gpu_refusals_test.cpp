// SPDX-License-Identifier: Apache-2.0
// Unmaps that a fake GPU's driver refuses: the page stays known as mapped, and is given up at the next point.
#include "tests/unit/client/gpu_pages.hpp"

namespace penstock::test {
namespace {

class GpuRefusals : public GpuPages {
 protected:
  // Of the driver's calls at those counts.
  void refuse(std::string_view call, std::initializer_list<const char*> counts) {
    for (const char* const count : counts)
      plan_ += fmt::format("{}{}:999@{};", is_hip() ? "hip" : "cu", call, count);
    fake_.set_faults(plan_.substr(0, plan_.size() - 1));
  }
  std::uint64_t mappings() const { return fake_.live().mappings; }
  std::string plan_;
};

TEST_F(GpuRefusals, AtANewConnectionThePageStaysKnown) {
  ASSERT_TRUE(fault(a_message).outcome);
  ASSERT_TRUE(paging_.unpin(*table_, {0, a_message}));
  ASSERT_EQ(mappings(), a_message);
  SharedWords pins(pages);
  refuse("MemUnmap", {"1", "2", "4"});  // The first page twice, the next but one once.
  attach(2, pins);
  EXPECT_EQ(mappings(), 1u) << "the others are asked for once more where that is refused";
  EXPECT_EQ(pstw_pin_state(pins.load(0)), PSTW_PIN_MAPPED);
  EXPECT_EQ(pstw_pin_state(pins.load(1)), PSTW_PIN_UNMAPPED);
  paging_.run_revokes();
  EXPECT_EQ(mappings(), 0u);
  EXPECT_EQ(fake_.used_bytes(), 0u);
  EXPECT_EQ(pstw_pin_state(pins.load(0)), PSTW_PIN_UNMAPPED);
}

TEST_F(GpuRefusals, OfAPageThatIsBeingRevokedItIsTriedAgainAtANewConnection) {
  ASSERT_TRUE(fault(a_message).outcome);
  ASSERT_TRUE(paging_.unpin(*table_, {0, a_message}));
  refuse("MemUnmap", {"1", "2"});
  service_->revoke(table_number, 0, 1);
  paging_.serve();
  paging_.run_revokes();
  ASSERT_EQ(pstw_pin_state(pin_words_.load(0)), PSTW_PIN_REVOKING);
  SharedWords pins(pages);
  attach(2, pins);
  EXPECT_EQ(mappings(), 0u);
}

TEST_F(GpuRefusals, ARunThatNobodyCanUseIsReleasedOnceItIsUnmapped) {
  refuse("MemSetAccess", {"1"});
  // The first page's, and again where the fault looks for what it can give up: once all others are unmapped.
  refuse("MemUnmap", {"1", "2", std::to_string(a_message + 2).append("+").c_str()});
  const auto answer = fault(a_message);
  ASSERT_FALSE(answer.outcome);
  EXPECT_EQ(answer.outcome.error().kind, FailureKind::device_unhealthy);
  EXPECT_EQ(mappings(), 1u);
  for (std::uint32_t page = 1; page != a_message; ++page)
    ASSERT_EQ(service_->next<PeerRelease>().page, page) << "the first is still mapped";
  EXPECT_EQ(pstw_pin_state(pin_words_.load(0)), PSTW_PIN_REVOKING) << "nobody may pin it";
  fake_.set_faults("");
  paging_.run_revokes();
  EXPECT_EQ(mappings(), 0u);
  const auto last = service_->next<PeerRelease>();
  EXPECT_EQ(last.page, 0u);
  EXPECT_EQ(last.generation, 1u);
  // As if nothing had been.
  EXPECT_TRUE(fault(a_message).outcome);
}

}  // namespace
}  // namespace penstock::test
