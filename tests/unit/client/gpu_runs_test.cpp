// SPDX-License-Identifier: Apache-2.0
// Pages of a fake GPU that come to the library in many messages: a run of them is made accessible by one call, as far as
// the descriptors allow where the driver uses them until then.
#include <algorithm>
#include <array>
#include <atomic>
#include <future>
#include <memory>
#include <numeric>
#include <optional>
#include <vector>

#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "dataplane/base/resource_limits.hpp"
#include "service/client/gpu_mapper.hpp"
#include "service/client/paging.hpp"
#include "service/client/table.hpp"
#include "tests/unit/client/client_faults.hpp"
#include "tests/unit/client/scripted_service.hpp"

namespace penstock::test {
namespace {

constexpr std::uint64_t frame_bytes = 2u << 20;
constexpr std::uint32_t table_number = 7, a_message = PSTW_GRANTS_MAX, pages = 6 * a_message;

class GpuRuns : public ClientFaults {
 protected:
  GpuRuns() : queue_(std::move(*EventQueue::create(nullptr, nullptr))), paging_("gpu0", *queue_) {
    std::iota(order_.begin(), order_.end(), 0);
  }

  void SetUp() override {
    ASSERT_EQ(fake_.used_bytes(), 0u);  // The fake's own descriptor is open from then on.
    ASSERT_GE(raise_open_files_limit().value_or(0), 4 * pages) << "requires RLIMIT_NOFILE for all pages";
    int ends[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    service_.emplace(UniqueFd(ends[0]));
    const auto socket = std::make_shared<const ForkAwareFd>(UniqueFd(ends[1]));
    epoll_ = UniqueFd(::epoll_create1(EPOLL_CLOEXEC));
    paging_.open(1, socket, *SocketWatch::add(epoll_.get(), ends[1], 0));

    gpu_ = {fake_.gpu(), *open_program_streams(is_hip() ? GpuVendor::hip : GpuVendor::cuda)};
    const TableShape shape{.mode = RevokeMode::cooperative,
                           .pages = pages,
                           .page_bytes = frame_bytes,
                           .bytes = pages * frame_bytes};
    table_ = std::make_unique<Table>(shape, paging_, &birth_, *GpuMapper::create(gpu_, pages, frame_bytes));
    const auto map = [](const SharedWords& words) {
      return std::move(*Mapping::shared(words.fd.get(), pages * sizeof(std::uint64_t), Access::read_write));
    };
    TableAttachment attachment;
    attachment.epoch = 1;
    attachment.number = table_number;
    attachment.page_words = map(page_words_);
    attachment.region = map(pin_words_);
    paging_.attach(*table_, std::move(attachment));
  }
  void TearDown() override {
    fake_.set_faults("");
    if (table_) paging_.detach(*table_);
    table_.reset();
    paging_.lose(1, {FailureKind::disconnected, "the end", ""});
    EXPECT_EQ(fake_.used_bytes(), 0u);
  }

  // The service's side of one fault over the whole table.
  Paging::Answer fault() {
    auto answer = std::async(std::launch::async, [this] {
      return paging_.fault(*table_, {0, pages}, monotonic_now() + bound);
    });
    const auto asked = service_->next<PeerFault>();
    for (std::uint32_t first = 0; first < pages; first += a_message) {
      const bool last = first + a_message == pages;
      grant(first, last ? std::optional(asked.request) : std::nullopt);
      if (!last) service_->next<PeerGranted>();
    }
    return answer.get();
  }
  void grant(std::uint32_t first, std::optional<std::uint64_t> completes) {
    std::vector<UniqueFd> frames(a_message);
    std::vector<GrantedPage> granted;
    for (UniqueFd& frame : frames) {
      MemoryHandle handle{};
      ASSERT_TRUE(gpu_.driver->create(frame_bytes, handle).ok());
      ASSERT_TRUE(gpu_.driver->export_fd(handle, frame).ok());
      ASSERT_TRUE(gpu_.driver->release(handle).ok());
      granted.push_back({table_number, order_[first + granted.size()], 1, false, frame.get()});
    }
    service_->grant(granted, completes);
  }
  std::uint64_t access_calls() const { return fake_.calls(is_hip() ? "hipMemSetAccess" : "cuMemSetAccess"); }
  static std::ptrdiff_t open_descriptors() {
    const std::filesystem::directory_iterator all("/proc/self/fd");
    return std::distance(begin(all), end(all));
  }
  std::uint32_t mapped_pages() const {
    std::uint32_t count = 0;
    for (std::uint32_t page = 0; page < pages; ++page) count += pin_words_.load(page) != 0;
    return count;
  }

  std::array<std::uint32_t, pages> order_;  // In which they come.
  static constexpr Nanoseconds bound = std::chrono::seconds(60);
  const std::atomic<std::uint32_t> birth_ = 1;
  std::unique_ptr<EventQueue> queue_;
  Paging paging_;
  UniqueFd epoll_;
  std::optional<ScriptedDevice> service_;
  SharedWords page_words_{pages}, pin_words_{pages};
  ProcessGpu gpu_;
  std::unique_ptr<Table> table_;
};

// As many pages as 24 GiB are in pages of 32 MiB.
TEST_F(GpuRuns, SixMessagesOfOneRunAreMadeAccessibleByOneCall) {
  const std::ptrdiff_t descriptors = open_descriptors();
  fake_.set_faults("");
  const Paging::Answer answer = fault();
  ASSERT_TRUE(answer.outcome) << answer.outcome.error().message;
  EXPECT_EQ(access_calls(), 1u);
  EXPECT_EQ(mapped_pages(), pages);
  EXPECT_EQ(open_descriptors(), descriptors) << "none is kept";
  EXPECT_EQ(fake_.live().handles, 0u);
}

// A service grants what is ready: a page that another session is just given may come a message later.
TEST_F(GpuRuns, PagesInAnyOrderAreMadeAccessibleByOneCallIfTheyLieSideBySide) {
  std::swap(order_[a_message - 1], order_[a_message]);
  std::swap(order_[3], order_[4 * a_message]);
  std::reverse(order_.end() - a_message, order_.end());
  fake_.set_faults("");
  const Paging::Answer answer = fault();
  ASSERT_TRUE(answer.outcome) << answer.outcome.error().message;
  EXPECT_EQ(access_calls(), 1u);
  EXPECT_EQ(mapped_pages(), pages);
}

TEST_F(GpuRuns, AreCutWhereDescriptorsBecomeShort) {
  const ResourceLimit before = *open_files_limit();
  // This driver's pages take one each in this process, and the service that is played here two for those it sends.
  const rlimit low{static_cast<rlim_t>(open_descriptors()) + pages + 3 * a_message, before.hard};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
  fake_.set_faults("");
  const Paging::Answer answer = fault();
  const rlimit high{before.soft, before.hard};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &high), 0);
  ASSERT_TRUE(answer.outcome) << answer.outcome.error().message;
  EXPECT_EQ(mapped_pages(), pages);
  if (is_hip()) {
    EXPECT_GT(access_calls(), 1u);
    EXPECT_LE(access_calls(), 3u);
  } else {
    EXPECT_EQ(access_calls(), 1u);
  }
}

TEST_F(GpuRuns, APageThatIsRefusedWhileDescriptorsAreKeptIsTriedWithoutThem) {
  if (!is_hip()) GTEST_SKIP() << "requires a driver that uses descriptors until access is set: HIP";
  fake_.set_faults("hipMemImportFromShareableHandle:2@200");
  const Paging::Answer answer = fault();
  EXPECT_TRUE(answer.outcome);
  EXPECT_EQ(access_calls(), 2u);
  EXPECT_EQ(mapped_pages(), pages);
}

}  // namespace
}  // namespace penstock::test
