// SPDX-License-Identifier: Apache-2.0
// Governor over devices that share the host's memory, which the test plays: a GPU, and host memory itself.
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <boost/asio/io_context.hpp>

#include "dataplane/base/check.hpp"
#include "service/control/governor.hpp"
#include "service/control/service.hpp"
#include "tests/support/open_mailbox.hpp"
#include "tests/unit/control/counted_allocations.hpp"

namespace penstock {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Budgets = std::vector<std::uint64_t>;

constexpr std::uint64_t capacity = 1 * gib;

struct PlayedRoom final : HeadroomSource {
  std::uint64_t room = 2 * gib;
  std::uint64_t headroom_bytes() override { return room; }
  std::uint64_t limit_bytes() override { return 4 * gib; }  // Lines: 512 and 768 MiB.
};

EventFd open_alarm() {
  auto alarm = EventFd::create();
  CHECK(alarm);
  return *std::move(alarm);
}

struct PlayedDevice {
  // Budgets that the pager was sent since the last call; all are answered.
  Budgets budgets() {
    std::vector<PagerMail> batch;
    mail->drain(batch);
    Budgets found;
    for (const PagerMail& one : batch) {
      const auto* budget = std::get_if<mail::ChangeBudget>(&one);
      if (budget == nullptr) continue;
      found.push_back(budget->bytes);
      CHECK(news->try_push(RequestDone{.request = budget->request}));
    }
    return found;
  }

  std::unique_ptr<Mailbox<PagerMail>> mail = test::open_mailbox<PagerMail>();
  std::unique_ptr<Mailbox<PagerNews>> news = test::open_mailbox<PagerNews>();
  PagerStats stats;
  std::uint64_t frame_bytes = capacity;
  bool making_ahead = true;
};

class GovernorOfSharedMemory : public ::testing::Test {
 protected:
  void add(PlayedDevice& device, const std::string& id, const std::string& kind) {
    service.add_device({.description = {.id = id,
                                        .kind = kind,
                                        .limits = {.frame_bytes = 8 * mib, .capacity_bytes = capacity}},
                        .mail = device.mail.get(),
                        .news = device.news.get(),
                        .stats = &device.stats});
  }
  HostFrames frames_of(PlayedDevice& device, std::size_t position) {
    return {.position = position, .frame_bytes = [&device] { return device.frame_bytes; }};
  }
  void start(std::vector<HostFrames> frames) {
    service.set_host_memory(room, 0);
    governor.emplace(context, service.state(), room, alarm, std::move(frames), Governor::Options{});
    for (PlayedDevice* device : {&other, &gpu, &host}) device->budgets();
  }

  boost::asio::io_context context{1};
  Config config;
  PlayedDevice other, gpu, host;
  PlayedRoom room;
  EventFd alarm = open_alarm();
  Service service{context, config};
  std::optional<Governor> governor;
  Nanoseconds now = seconds(1000);
};

TEST_F(GovernorOfSharedMemory, AGpuGivesItBackAsHostMemoryDoesAndAnotherGpuIsNotAsked) {
  add(other, "cuda-1a2b3c4d", "cuda");
  add(gpu, "cuda-5e6f7a8b", "cuda");
  start({frames_of(gpu, 1)});
  governor->look(now);
  room.room = 500 * mib;
  governor->look(now += milliseconds(5));
  EXPECT_EQ(gpu.budgets(), Budgets{capacity - 268 * mib});
  EXPECT_EQ(other.budgets(), Budgets{});
  EXPECT_EQ(service.state().pressure->level, PressureLevel::some);
  EXPECT_EQ(service.state().pressure->falls, 1u);
}

TEST_F(GovernorOfSharedMemory, KeepsWhatIsPinnedOnAGpu) {
  add(gpu, "cuda-5e6f7a8b", "cuda");
  start({frames_of(gpu, 0)});
  gpu.stats.pinned_bytes = 900 * mib;
  room.room = 100 * mib;
  governor->look(now);
  EXPECT_EQ(gpu.budgets(), Budgets{900 * mib});
}

TEST_F(GovernorOfSharedMemory, AGpuAndHostMemoryShareOneBudgetWithoutAnAllocation) {
  add(gpu, "cuda-5e6f7a8b", "cuda");
  add(host, "host", "host");
  HostFrames of_host = frames_of(host, 1);
  of_host.set_making_ahead = [this](bool allowed) { host.making_ahead = allowed; };
  start({frames_of(gpu, 0), std::move(of_host)});
  governor->look(now);
  // 400 MiB are missing: what nobody uses of the 2 GiB is not, so each gives 200.
  room.room = 368 * mib;
  test::count_allocations_until_readable(host.mail->fd());
  governor->look(now += milliseconds(5));
  test::count_allocations_until_readable(-1);
  EXPECT_EQ(test::counted_allocations(), 0);
  EXPECT_EQ(gpu.budgets(), Budgets{capacity - 200 * mib});
  EXPECT_EQ(host.budgets(), Budgets{capacity - 200 * mib});
  EXPECT_FALSE(host.making_ahead);
}

}  // namespace
}  // namespace penstock
