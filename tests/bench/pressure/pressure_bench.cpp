// SPDX-License-Identifier: Apache-2.0
// How long after the alarm the first page's memory is given back: a service in this process, whose pages a client maps
// without a pin, so that each eviction asks the client. What is left of memory is a number, as is what a neighbour takes:
// neither the kernel's part (a hint or a trigger, the watch that waits for it) nor the cgroup's files are measured here,
// but by bench_pressure_kernel.
// Ends with 1 when the 99th percentile is above the limit.
//   bench_pressure [--triggers 200]
#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <string>
#include <vector>

#include <spdlog/spdlog.h>
#include <nlohmann/json.hpp>

#include "dataplane/base/check.hpp"
#include "tests/bench/pressure/pressure_node.hpp"
#include "tests/bench/sparse_checkpoint.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/temporary_folder.hpp"

namespace penstock::bench {
namespace {

constexpr std::uint64_t low = 8 * mib;
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

double one_trigger(Node& node, WatchedRoom& room, const EventFd& alarm) {
  const std::int64_t taken = room.take_all_but(low / 2);
  const Nanoseconds start = monotonic_now();
  alarm.signal();
  const Nanoseconds first = room.wait_for_first();
  room.give(taken);
  // The budget rises with the governor's next looks.
  CHECK(eventually([&] {
    alarm.signal();
    return node.is_whole();
  }));
  return static_cast<double>((first - start).count()) / 1e6;
}

int measure(int triggers) {
  spdlog::set_level(spdlog::level::err);
  const test::TemporaryFolder folder;
  const std::string file = write_sparse_checkpoint(folder / ".", file_bytes);
  const std::string socket = (folder / "socket").string();
  WatchedRoom room;
  auto alarm = EventFd::create();
  CHECK(alarm);
  PressureOptions policy = short_recovery();
  policy.low_least_bytes = policy.low_most_bytes = low;
  Node node(socket, room, *alarm, nullptr, policy);
  MappingClient client(socket, file);
  std::vector<double> times;
  for (int i = 0; i < triggers; ++i) {
    client.map_all();
    times.push_back(one_trigger(node, room, *alarm));
  }
  std::ranges::sort(times);
  const double p99 = quantile(times, 0.99);
  const nlohmann::json answer{{"triggers", triggers},           {"p50_ms", quantile(times, 0.5)},
                              {"p90_ms", quantile(times, 0.9)}, {"p99_ms", p99},
                              {"most_ms", times.back()},        {"limit_ms", limit_ms},
                              {"holds", p99 <= limit_ms}};
  std::printf("%s\n", answer.dump(2).c_str());
  return p99 <= limit_ms ? 0 : 1;
}

}  // namespace
}  // namespace penstock::bench

int main(int count, char** words) {
  const bool given = count == 3 && std::string(words[1]) == "--triggers";
  return penstock::bench::measure(given ? std::stoi(words[2]) : 200);
}
