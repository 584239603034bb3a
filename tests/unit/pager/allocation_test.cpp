// SPDX-License-Identifier: Apache-2.0
// A fault on a resident page allocates nothing: this program counts its allocations.
#include <gtest/gtest.h>

#include "tests/unit/pager/counted_new.hpp"
#include "tests/unit/pager/pager_rig.hpp"

namespace penstock::test {
namespace {

// A client that holds one message at a time and remembers nothing but the newest grant.
class NarrowPort final : public PeerPort {
 public:
  void say(const PeerMessage& message) { next_ = PeerDatagram{message}; }
  std::uint64_t generation = 0;
  std::uint32_t batch = 0, grants = 0;

  int fd() const override { return -1; }
  Result<std::optional<PeerDatagram>> receive() override { return std::exchange(next_, std::nullopt); }
  Result<> send_grants(std::uint32_t number, std::span<const GrantedPage> pages,
                       std::optional<PeerCompletion>) override {
    batch = number;
    generation = pages[0].generation;
    ++grants;
    return {};
  }
  Result<> send_revoke(std::uint32_t, std::uint32_t, std::uint64_t) override { return {}; }
  Result<> send_completion(const PeerCompletion&) override { return {}; }
  Result<> send_closing() override { return {}; }

 private:
  std::optional<PeerDatagram> next_;
};

TEST(PagerAllocations, AFaultOnAResidentPageMakesNone) {
  PagerRig rig;
  rig.open_file(1, 4 * PagerRig::frame);
  auto owned = std::make_unique<NarrowPort>();
  NarrowPort& client = *owned;
  rig.mail(mail::OpenSession{.session = SessionId{1}, .port = std::move(owned)});
  rig.attach(1, 1, 4);
  rig.mail(mail::LoadTable{.request = RequestId{1}, .table = TableId{1}});
  rig.settle();
  const SessionId id{1};
  std::uint64_t request = 0;
  const auto say = [&](const PeerMessage& message) {
    client.say(message);
    rig.pager->turn(rig.now, {.mail = false, .device = false, .reads = false, .readable = {&id, 1}});
    if (rig.pager->has_unsettled()) rig.pager->settle(rig.now);
  };
  const auto fault_and_release = [&](std::uint32_t page) {
    say(PeerFault{.request = ++request, .table = 1, .first = page, .count = 1});
    say(PeerGranted{.batch = client.batch});
    say(PeerRelease{
        .request = 0, .table = 1, .page = page, .generation = client.generation, .drop_if_last = false});
  };
  for (std::uint32_t round = 0; round < 16; ++round) fault_and_release(round % 4);
  const std::uint64_t before = allocations();
  for (std::uint32_t round = 0; round < 100; ++round) fault_and_release(round % 4);
  EXPECT_EQ(allocations() - before, 0u);
  EXPECT_EQ(client.grants, 116u);
}

}  // namespace
}  // namespace penstock::test
