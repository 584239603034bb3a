// SPDX-License-Identifier: Apache-2.0
// How long after the alarm the first page's memory is given back: a service in this process, whose pages a client maps
// without a pin, so that each eviction asks the client. What is left of memory is a number, as is what a neighbour takes:
// neither the kernel's part (a hint or a trigger, the watch that waits for it) nor the cgroup's files are measured here.
// Ends with 1 when the 99th percentile is above the limit.
//   bench_pressure [--triggers 200]
#include <algorithm>
#include <atomic>
#include <cmath>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <spdlog/spdlog.h>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <nlohmann/json.hpp>

#include "dataplane/base/check.hpp"
#include "dataplane/core/simple_eviction.hpp"
#include "dataplane/device/host/host_device.hpp"
#include "dataplane/pager/dataplane_thread.hpp"
#include "service/client/include/penstock.h"
#include "service/control/governor.hpp"
#include "service/control/service.hpp"
#include "tests/bench/sparse_checkpoint.hpp"
#include "tests/bench/statistics.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/temporary_folder.hpp"

namespace penstock::bench {
namespace {

constexpr std::uint64_t frame_bytes = 2 * mib, frames = 64, file_bytes = 48 * frame_bytes;
constexpr std::uint64_t low = 8 * mib, minute = 60'000'000'000;
constexpr double limit_ms = 50.0;

// Hears of each frame whose memory is gone.
class WatchedRoom final : public HeadroomSource {
 public:
  std::uint64_t headroom_bytes() override {
    const std::int64_t left = left_.load();
    return left > 0 ? static_cast<std::uint64_t>(left) : 0;
  }
  std::uint64_t limit_bytes() override { return 1 * gib; }
  void account(std::int64_t bytes) override {
    left_ -= bytes;
    if (bytes >= 0) return;
    const std::lock_guard lock(mutex_);
    if (given_back_at_ == Nanoseconds{}) given_back_at_ = monotonic_now();
    given_back_.notify_one();
  }
  // A neighbour takes all but `bytes`. Returns what it took.
  std::int64_t take_all_but(std::int64_t bytes) {
    const std::lock_guard lock(mutex_);
    given_back_at_ = {};
    const std::int64_t taken = left_.load() - bytes;
    left_ -= taken;
    return taken;
  }
  void give(std::int64_t bytes) { left_ += bytes; }
  Nanoseconds wait_for_first() {
    std::unique_lock lock(mutex_);
    CHECK(given_back_.wait_for(lock, std::chrono::seconds(20),
                               [this] { return given_back_at_ != Nanoseconds{}; }));
    return given_back_at_;
  }

 private:
  std::atomic<std::int64_t> left_{static_cast<std::int64_t>(1 * gib)};
  std::mutex mutex_;
  std::condition_variable given_back_;
  Nanoseconds given_back_at_{};
};

EventFd open_alarm() {
  auto alarm = EventFd::create();
  CHECK(alarm);
  return *std::move(alarm);
}

// The service with its host device; its thread is the loop's.
class Node {
 public:
  explicit Node(const std::string& socket) {
    auto opened = HostDevice::open(
        {.frame_bytes = frame_bytes, .capacity_bytes = frames * frame_bytes, .ready_pool_frames = 0}, room);
    CHECK(opened);
    device_ = std::make_shared<HostDevice>(std::move(*opened));
    // Frames made ahead would go first, without asking anybody: the slower way is measured.
    device_->owner().set_making_ahead(false);
    auto thread =
        DataplaneThread::start({.owner = std::shared_ptr<FrameOwner>(device_, &device_->owner()),
                                .writer = std::shared_ptr<FrameWriter>(device_, &device_->writer())},
                               std::make_unique<SimpleEviction>(), {});
    CHECK(thread);
    thread_ = *std::move(thread);
    service_.add_device({.description = {.id = "host", .kind = "host", .limits = device_->owner().limits()},
                         .mail = &thread_->mail(),
                         .news = &thread_->news(),
                         .stats = &thread_->stats()});
    service_.set_host_memory(room, 0);
    Governor::Options options;
    options.policy = {.frames_max_bytes = frames * frame_bytes,
                      .low_least_bytes = low,
                      .low_most_bytes = low,
                      .calm_after = {},
                      .rise_time = std::chrono::milliseconds(1),
                      .rise_step_bytes = frame_bytes,
                      .pause_least = {},
                      .pause_most = {}};
    HostFrames host{.frame_bytes =
                        [this] {
                          const HostFrameStats all = device_->owner().stats();
                          return (all.alive + all.ready + all.in_the_making + all.dying) * frame_bytes;
                        },
                    .set_making_ahead = [](bool) {}};
    governor_.emplace(context_, service_.state(), room, alarm, std::move(host), options);
    governor_->start();
    auto listening = ServiceSocket::listen({.path = socket, .group = ""});
    CHECK(listening);
    socket_.emplace(std::move(*listening));
    service_.serve(*socket_);
    loop_ = std::thread([this] { context_.run(); });
  }
  ~Node() {
    boost::asio::post(context_, [this] { service_.stop([this](const std::string&) { context_.stop(); }); });
    loop_.join();
  }
  bool is_whole() const { return thread_->stats().budget_bytes.load() == frames * frame_bytes; }

  WatchedRoom room;
  EventFd alarm = open_alarm();

 private:
  boost::asio::io_context context_{1};
  Config config_;
  Service service_{context_, config_};
  std::shared_ptr<HostDevice> device_;
  std::unique_ptr<DataplaneThread> thread_;
  std::optional<Governor> governor_;
  std::optional<ServiceSocket> socket_;
  std::thread loop_;
};

void check(pst_status status) {
  if (status != PST_DONE) std::fprintf(stderr, "%s\n", pst_status_name(status));
  CHECK(status == PST_DONE);
}

// All pages resident, mapped by the client, and not pinned.
void map_all(pst_table* table) {
  check(pst_fault(table, 0, file_bytes, minute));
  check(pst_unpin(table, 0, file_bytes, nullptr));
}

double one_trigger(Node& node) {
  const std::int64_t taken = node.room.take_all_but(low / 2);
  const Nanoseconds start = monotonic_now();
  node.alarm.signal();
  const Nanoseconds first = node.room.wait_for_first();
  node.room.give(taken);
  // The budget rises with the governor's next looks.
  CHECK(eventually([&] {
    node.alarm.signal();
    return node.is_whole();
  }));
  return static_cast<double>((first - start).count()) / 1e6;
}

int measure(int triggers) {
  spdlog::set_level(spdlog::level::err);
  const test::TemporaryFolder folder;
  const std::string file = write_sparse_checkpoint(folder / ".", file_bytes);
  const std::string socket = (folder / "socket").string();
  Node node(socket);
  pst_connect_options options{};
  options.size = sizeof options;
  options.socket = socket.c_str();
  pst_client* client = nullptr;
  pst_checkpoint* checkpoint = nullptr;
  pst_table* table = nullptr;
  check(pst_connect(&options, &client));
  check(pst_open(client, file.c_str(), &checkpoint));
  check(pst_table_open(checkpoint, nullptr, &table));
  std::vector<double> times;
  for (int i = 0; i < triggers; ++i) {
    map_all(table);
    times.push_back(one_trigger(node));
  }
  pst_disconnect(client);
  std::ranges::sort(times);
  const auto at = [&](double part) {
    return times[static_cast<std::size_t>(std::ceil(part * static_cast<double>(times.size()))) - 1];
  };
  const nlohmann::json answer{
      {"triggers", triggers},         {"p50_ms", at(0.5)},       {"p90_ms", at(0.9)},
      {"p99_ms", at(0.99)},           {"most_ms", times.back()}, {"limit_ms", limit_ms},
      {"holds", at(0.99) <= limit_ms}};
  std::printf("%s\n", answer.dump(2).c_str());
  return answer.at("holds").get<bool>() ? 0 : 1;
}

}  // namespace
}  // namespace penstock::bench

int main(int count, char** words) {
  const bool given = count == 3 && std::string(words[1]) == "--triggers";
  return penstock::bench::measure(given ? std::stoi(words[2]) : 200);
}
