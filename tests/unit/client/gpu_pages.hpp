// SPDX-License-Identifier: Apache-2.0
// A table on a fake GPU, and the service's side of its device socket.
#pragma once

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

inline constexpr std::uint64_t frame_bytes = 2u << 20;
inline constexpr std::uint32_t table_number = 7, overlay_number = 8, a_message = PSTW_GRANTS_MAX,
                               pages = 6 * a_message;

class GpuPages : public ClientFaults {
 protected:
  GpuPages() : queue_(std::move(*EventQueue::create(nullptr, nullptr))), paging_("gpu0", *queue_) {
    std::iota(order_.begin(), order_.end(), 0);
  }

  void SetUp() override {
    ASSERT_EQ(fake_.used_bytes(), 0u);  // The fake's own descriptor is open from then on.
    ASSERT_GE(raise_open_files_limit().value_or(0), 4 * pages) << "requires RLIMIT_NOFILE for all pages";
    epoll_ = UniqueFd(::epoll_create1(EPOLL_CLOEXEC));
    gpu_ = {fake_.gpu(), *open_program_streams(is_hip() ? GpuVendor::hip : GpuVendor::cuda)};
    const TableShape shape{.mode = RevokeMode::cooperative,
                           .pages = pages,
                           .page_bytes = frame_bytes,
                           .bytes = pages * frame_bytes};
    table_ = std::make_unique<Table>(shape, paging_, &birth_, *GpuMapper::create(gpu_, pages, frame_bytes));
    attach(1, pin_words_);
  }
  // On a connection of its own.
  void attach(std::uint64_t epoch, const SharedWords& pins) {
    int ends[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    service_.emplace(UniqueFd(ends[0]));
    const auto socket = std::make_shared<const ForkAwareFd>(UniqueFd(ends[1]));
    paging_.open(epoch, socket, *SocketWatch::add(epoll_.get(), ends[1], 0));
    epoch_ = epoch;
    const auto map = [](const SharedWords& words) {
      return std::move(*Mapping::shared(words.fd.get(), pages * sizeof(std::uint64_t), Access::read_write));
    };
    TableAttachment attachment;
    attachment.epoch = epoch;
    attachment.number = table_number;
    attachment.overlay_number = overlay_number;
    attachment.overlay_words = map(overlay_words_);
    attachment.page_words = map(page_words_);
    attachment.region = map(pins);
    paging_.attach(*table_, std::move(attachment));
  }
  void TearDown() override {
    fake_.set_faults("");
    if (table_) paging_.detach(*table_);
    table_.reset();
    paging_.lose(epoch_, {FailureKind::disconnected, "the end", ""});
    EXPECT_EQ(fake_.used_bytes(), 0u);
  }

  // The service's side of one fault over the start of the table: whole messages.
  Paging::Answer fault(std::uint32_t count = pages) {
    auto answer = std::async(std::launch::async, [this, count] {
      return paging_.fault(*table_, {0, count}, monotonic_now() + bound);
    });
    const auto asked = service_->next<PeerFault>();
    for (std::uint32_t first = 0; first < count; first += a_message) {
      const bool last = first + a_message == count;
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
  // All pages, as if the service had asked for them.
  void give_all_up() {
    for (std::uint32_t page = 0; page < pages; ++page) {
      const auto mapped = table_->mapped(page);
      if (!mapped) continue;
      service_->revoke(table_->name_of(page).table, page, mapped->generation);
      paging_.serve();
      paging_.run_revokes();
    }
    while (service_->next_within(std::chrono::milliseconds(0))) continue;
    ASSERT_EQ(fake_.used_bytes(), 0u);
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
  std::uint64_t epoch_ = 0;
  static constexpr Nanoseconds bound = std::chrono::seconds(60);
  const std::atomic<std::uint32_t> birth_ = 1;
  std::unique_ptr<EventQueue> queue_;
  Paging paging_;
  UniqueFd epoll_;
  std::optional<ScriptedDevice> service_;
  SharedWords page_words_{pages}, overlay_words_{pages}, pin_words_{pages};
  ProcessGpu gpu_;
  std::unique_ptr<Table> table_;
};

}  // namespace penstock::test
