// SPDX-License-Identifier: Apache-2.0
// Private pages that are to take the place of pinned ones on a fake GPU, and tables that are closed and opened again there.
#include "tests/unit/client/gpu_pages.hpp"

namespace penstock::test {
namespace {

class GpuReplacements : public GpuPages {
 protected:
  void bring() {
    ASSERT_TRUE(fault(a_message).outcome);
    ASSERT_EQ(mappings(), a_message);
  }
  // The service's side of one private page.
  void grant_private(std::uint32_t page, std::optional<std::uint64_t> completes) {
    UniqueFd frame;
    MemoryHandle handle{};
    ASSERT_TRUE(gpu_.driver->create(frame_bytes, handle).ok());
    ASSERT_TRUE(gpu_.driver->export_fd(handle, frame).ok());
    ASSERT_TRUE(gpu_.driver->release(handle).ok());
    const GrantedPage granted{overlay_number, page, 2, true, frame.get()};
    service_->grant(std::span(&granted, 1), completes);
  }
  std::future<Paging::Answer> make_private(std::uint32_t page, Nanoseconds patience = bound) {
    return std::async(std::launch::async, [this, page, patience] {
      return paging_.make_private(*table_, {page, 1}, monotonic_now() + patience);
    });
  }
  void expect_release(std::uint32_t table, std::uint32_t page, std::uint64_t generation) {
    const auto released = service_->next<PeerRelease>();
    EXPECT_EQ(released.table, table);
    EXPECT_EQ(released.page, page);
    EXPECT_EQ(released.generation, generation);
  }
  std::uint64_t mappings() const { return fake_.live().mappings; }
  std::uint32_t state(std::uint32_t page) const { return pstw_pin_state(pin_words_.load(page)); }
  std::uint32_t count(std::uint32_t page) const { return pstw_pin_count(pin_words_.load(page)); }
  std::string call(std::string_view name) const { return fmt::format("{}{}", is_hip() ? "hip" : "cu", name); }
};

TEST_F(GpuReplacements, APrivatePageTakesThePlaceOfAPinnedOne) {
  bring();
  auto answer = make_private(0);
  grant_private(0, service_->next<PeerMakePrivate>().request);
  EXPECT_TRUE(answer.get().outcome);
  expect_release(table_number, 0, 1);
  EXPECT_TRUE(table_->is_private(0));
  EXPECT_EQ(count(0), 1u);
  EXPECT_EQ(mappings(), a_message);
}

TEST_F(GpuReplacements, OneThatTheDriverRefusesIsDroppedAtOnce) {
  for (const char* const refused : {"MemMap:2@1", "MemSetAccess:999@1"}) {
    bring();
    auto answer = make_private(0);
    const auto asked = service_->next<PeerMakePrivate>();
    fake_.set_faults(call(refused));
    grant_private(0, asked.request);
    const auto failed = answer.get().outcome;
    fake_.set_faults("");
    ASSERT_FALSE(failed) << refused;
    EXPECT_NE(failed.error().kind, FailureKind::busy);
    expect_release(overlay_number, 0, 2);
    expect_release(table_number, 0, 1);
    EXPECT_EQ(mappings(), a_message - 1);
    EXPECT_EQ(fake_.used_bytes(), (a_message - 1) * frame_bytes) << "both frames are given back";
    // Nobody takes what is not there for a page; the pin that was there is still given up once.
    EXPECT_EQ(state(0), PSTW_PIN_UNMAPPED);
    EXPECT_EQ(paging_.pin_settled(*table_, {0, 1}), PinOutcome::not_mapped);
    EXPECT_EQ(count(0), 1u);
    ASSERT_TRUE(paging_.unpin(*table_, {0, a_message}));
    EXPECT_FALSE(paging_.unpin(*table_, {0, 1}));
    ASSERT_NO_FATAL_FAILURE(give_all_up());
  }
}

TEST_F(GpuReplacements, APageThatIsLostUnderAPinComesBackUnderIt) {
  bring();
  auto answer = make_private(0);
  const auto asked = service_->next<PeerMakePrivate>();
  fake_.set_faults(call("MemMap:2@1"));
  grant_private(0, asked.request);
  ASSERT_FALSE(answer.get().outcome);
  fake_.set_faults("");
  expect_release(overlay_number, 0, 2);
  expect_release(table_number, 0, 1);
  auto again = std::async(std::launch::async, [this] {
    return paging_.fault(*table_, {0, 1}, monotonic_now() + bound);
  });
  const auto fault = service_->next<PeerFault>();
  UniqueFd frame;
  MemoryHandle handle{};
  ASSERT_TRUE(gpu_.driver->create(frame_bytes, handle).ok());
  ASSERT_TRUE(gpu_.driver->export_fd(handle, frame).ok());
  ASSERT_TRUE(gpu_.driver->release(handle).ok());
  const GrantedPage granted{table_number, 0, 3, false, frame.get()};
  service_->grant(std::span(&granted, 1), fault.request);
  ASSERT_TRUE(again.get().outcome);
  EXPECT_EQ(count(0), 2u);
  EXPECT_EQ(state(0), PSTW_PIN_MAPPED);
}

TEST_F(GpuReplacements, PinsThatAPageWasLostUnderOutliveTheConnection) {
  bring();
  auto answer = make_private(0);
  const auto asked = service_->next<PeerMakePrivate>();
  fake_.set_faults(call("MemMap:2@1"));
  grant_private(0, asked.request);
  ASSERT_FALSE(answer.get().outcome);
  fake_.set_faults("");
  SharedWords pins(pages);
  attach(2, pins);
  EXPECT_EQ(pstw_pin_count(pins.load(0)), 1u);
  EXPECT_EQ(pstw_pin_state(pins.load(0)), PSTW_PIN_UNMAPPED);
  EXPECT_TRUE(paging_.unpin(*table_, {1, a_message - 1}));
  EXPECT_EQ(paging_.try_detach(*table_).ending, Ending::now) << "it keeps nothing";
  EXPECT_TRUE(paging_.unpin(*table_, {0, 1}));
  EXPECT_FALSE(paging_.unpin(*table_, {0, 1}));
}

TEST_F(GpuReplacements, WorkThatIsNotOverKeepsThePage) {
  bring();
  table_->mapper().note_unknown(0);
  const auto refused = make_private(0).get().outcome;
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, FailureKind::busy);
  EXPECT_FALSE(service_->next_within(std::chrono::milliseconds(0))) << "nothing was asked for";
  // The same, told while the service makes the page.
  table_->mapper().forget_work();
  auto answer = make_private(0);
  const auto asked = service_->next<PeerMakePrivate>();
  table_->mapper().note_unknown(0);
  fake_.set_faults("");
  grant_private(0, asked.request);
  const auto late = answer.get().outcome;
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().kind, FailureKind::busy);
  expect_release(overlay_number, 0, 2);
  EXPECT_EQ(fake_.calls(call("MemUnmap").c_str()), 0u);
  EXPECT_EQ(state(0), PSTW_PIN_MAPPED);
  EXPECT_FALSE(table_->is_private(0));
  table_->mapper().forget_work();
}

TEST_F(GpuReplacements, OneThatComesTooLateIsGivenBack) {
  bring();
  auto answer = make_private(0, std::chrono::milliseconds(1));
  service_->next<PeerMakePrivate>();
  const auto late = answer.get().outcome;
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().kind, FailureKind::deadline);
  service_->next<PeerCancel>();
  // Whoever wanted it goes on with the page as it is.
  fake_.set_faults("");
  grant_private(0, std::nullopt);
  paging_.serve();
  expect_release(overlay_number, 0, 2);
  EXPECT_EQ(fake_.calls(call("MemUnmap").c_str()), 0u);
  EXPECT_FALSE(table_->is_private(0));
  EXPECT_EQ(state(0), PSTW_PIN_MAPPED);
}

TEST_F(GpuReplacements, AClosedTableStaysKnownUntilTheDriverHasUnmappedIt) {
  bring();
  ASSERT_TRUE(paging_.unpin(*table_, {0, a_message}));
  // All of it at once twice, if it can do that, and the first two pages twice.
  const int first = is_hip() && fake_.gpu()->unmaps_several() == false ? 1 : 3;
  std::string plan;
  for (int at = first == 3 ? 1 : first; at < first + 4; ++at)
    plan += fmt::format("{}:999@{};", call("MemUnmap"), at);
  fake_.set_faults(plan.substr(0, plan.size() - 1));
  EXPECT_EQ(paging_.try_detach(*table_).ending, Ending::later);
  fake_.set_faults("");
  EXPECT_EQ(mappings(), 2u);
  for (std::uint32_t page = 2; page != a_message; ++page) expect_release(table_number, page, 1);
  EXPECT_EQ(state(0), PSTW_PIN_MAPPED);
  EXPECT_EQ(state(2), PSTW_PIN_UNMAPPED);
  // It answers meanwhile.
  service_->revoke(table_number, 1, 1);
  paging_.serve();
  paging_.run_revokes();
  EXPECT_EQ(mappings(), 1u);
  const auto ended = paging_.try_detach(*table_);
  EXPECT_EQ(ended.ending, Ending::now);
  EXPECT_EQ(ended.number, table_number);
  EXPECT_EQ(mappings(), 0u);
}

TEST_F(GpuReplacements, ATableThatIsOpenedAgainBeginsAnew) {
  bring();
  paging_.set_cutoff(*table_, 3);
  EXPECT_EQ(service_->next<PeerCutoff>().pages, 3u);
  service_->revoke(table_number, 1, 1);
  paging_.serve();
  service_->next<PeerBusy>();
  paging_.begin_anew(*table_);
  EXPECT_EQ(service_->next<PeerIdle>().page, 1u) << "its last pin is gone";
  EXPECT_EQ(service_->next<PeerCutoff>().pages, UINT32_MAX);
  EXPECT_FALSE(table_->cutoff);
  for (std::uint32_t page = 0; page != a_message; ++page) ASSERT_EQ(count(page), 0u);
  // What they were for may still run.
  EXPECT_EQ(paging_.try_detach(*table_).ending, Ending::unknown);
  EXPECT_EQ(paging_.pin_settled(*table_, {0, 1}), PinOutcome::done);
  ASSERT_TRUE(paging_.unpin(*table_, {0, 1}));
  service_->revoke(table_number, 0, 1);
  paging_.serve();
  paging_.run_revokes();
  EXPECT_EQ(mappings(), a_message);
  paging_.set_idle(true);
  EXPECT_EQ(mappings(), a_message - 1);
}

}  // namespace
}  // namespace penstock::test
