// SPDX-License-Identifier: Apache-2.0
// The whole service in a cgroup of v2 with a neighbour that takes memory; what its probes came to; its sudden end.
#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstring>
#include <functional>
#include <optional>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include "dataplane/base/check.hpp"
#include "dataplane/base/clock.hpp"
#include "dataplane/base/unique_fd.hpp"
#include "dataplane/base/units.hpp"
#include "service/client/include/penstock.h"
#include "tests/integration/client/service_process.hpp"
#include "tests/integration/probes/kernel_programs.hpp"
#include "tests/integration/vm/guest_cgroup.hpp"
#include "tests/support/eventually.hpp"

namespace penstock {
namespace {

using Json = nlohmann::json;
using test::GuestCgroup;
using test::ServiceProcess;

constexpr std::uint64_t page = 2 * mib;
constexpr std::uint64_t limit = 448 * mib;  // The governor's lines: 64 and 96 MiB.
constexpr std::uint64_t capacity = 192 * mib;
constexpr std::uint64_t left = 200 * mib;  // By the neighbour, to the service and the kernel's own needs.
constexpr std::uint64_t rate =
    256 * mib;  // Bytes a second: an emulated processor zeroes a few times as many.
constexpr std::uint32_t stamps = 2 * capacity / page;

// Twice what the device holds: zeros, with a number at the start of each page's worth, and hardly a block on the disk.
std::uint64_t write_stamped(const std::filesystem::path& path) {
  std::string header =
      fmt::format("{{\"t\":{{\"dtype\":\"U8\",\"shape\":[{0}],\"data_offsets\":[0,{0}]}}}}", stamps * page);
  header.append(-header.size() % 8, ' ');
  const std::uint64_t length = header.size(), data = 8 + length;
  const UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
  CHECK(::pwrite(file.get(), &length, 8, 0) == 8);
  CHECK(::pwrite(file.get(), header.data(), length, 8) == static_cast<ssize_t>(length));
  CHECK(::ftruncate(file.get(), static_cast<off_t>(data + stamps * page)) == 0);
  for (std::uint64_t stamp = 0; stamp < stamps; ++stamp) {
    const std::uint64_t number = stamp + 1;
    CHECK(::pwrite(file.get(), &number, 8, static_cast<off_t>(data + stamp * page)) == 8);
  }
  return data;
}

class Client {
 public:
  explicit Client(const ServiceProcess& service) {
    const std::string socket = service.socket();
    pst_connect_options options{};
    options.size = sizeof options;
    options.socket = socket.c_str();
    CHECK(pst_connect(&options, &client_) == PST_DONE);
  }
  ~Client() {
    stopped_ = true;
    if (reader_.joinable()) reader_.join();
    pst_disconnect(client_);
  }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  Json ask(const char* what) const {
    char* text = nullptr;
    CHECK(pst_query(client_, what, "{}", &text) == PST_DONE);
    Json answer = Json::parse(text);
    pst_release_text(text);
    return answer;
  }
  // From now on a thread pins stamp after stamp and compares each.
  void read(const std::filesystem::path& path) {
    pst_table_options options{};
    options.size = sizeof options;
    CHECK(pst_open(client_, path.c_str(), &checkpoint_) == PST_DONE);
    CHECK(pst_table_open(checkpoint_, &options, &table_) == PST_DONE);
    reader_ = std::thread([this] {
      for (std::uint64_t stamp = 0; !stopped_; stamp = (stamp + 1) % stamps) look_at(stamp);
    });
  }
  std::uint64_t seen() const { return seen_; }
  std::uint64_t wrong() const { return wrong_; }
  // Waits for an event of the service's, or a moment.
  void wait() {
    pollfd one{.fd = pst_event_fd(client_), .events = POLLIN, .revents = 0};
    ::poll(&one, 1, 50);
    pst_event event{};
    event.size = sizeof event;
    while (pst_next_event(client_, &event) == PST_DONE) {
      if (event.kind == PST_EVENT_PRESSURE) levels_.push_back(event.level);
    }
  }
  const std::vector<std::uint32_t>& levels() const { return levels_; }

 private:
  void look_at(std::uint64_t stamp) {
    pst_table_info info{};
    info.size = sizeof info;
    std::uint64_t offset = 0, bytes = 0;
    CHECK(pst_table_describe(table_, &info) == PST_DONE);
    CHECK(pst_table_tensor(table_, 0, &offset, &bytes) == PST_DONE);
    const std::uint64_t at = offset + stamp * page;
    if (pst_fault(table_, at, 8, 60'000'000'000) != PST_DONE) {
      ++wrong_;
      return;
    }
    std::uint64_t number = 0;
    std::memcpy(&number, static_cast<const std::byte*>(info.address) + at, sizeof number);
    wrong_ += number == stamp + 1 ? 0 : 1;
    seen_ += 1;
    if (pst_unpin(table_, at, 8, nullptr) != PST_DONE) ++wrong_;
  }

  pst_client* client_ = nullptr;
  pst_checkpoint* checkpoint_ = nullptr;
  pst_table* table_ = nullptr;
  std::thread reader_;
  std::atomic<bool> stopped_{false};
  std::atomic<std::uint64_t> seen_{0}, wrong_{0};
  std::vector<std::uint32_t> levels_;
};

// A process in the cgroup that takes memory when it is told to, at `rate`.
class Neighbour {
 public:
  explicit Neighbour(const GuestCgroup& cgroup) {
    int go[2], taken[2];
    CHECK(::pipe2(go, O_CLOEXEC) == 0 && ::pipe2(taken, O_CLOEXEC) == 0);
    UniqueFd go_read(go[0]), taken_write(taken[1]);
    go_ = UniqueFd(go[1]);
    taken_ = UniqueFd(taken[0]);
    process_ = ::fork();
    CHECK(process_ >= 0);
    if (process_ != 0) return;
    cgroup.enter();
    char letter = 0;
    if (::read(go_read.get(), &letter, 1) == 1) take(limit - left);
    (void)!::write(taken_write.get(), "t", 1);
    while (true) ::pause();
  }
  ~Neighbour() { end(); }
  Neighbour(const Neighbour&) = delete;
  Neighbour& operator=(const Neighbour&) = delete;

  void go() { CHECK(::write(go_.get(), "g", 1) == 1); }
  // False also when it was killed.
  bool has_taken() const {
    pollfd one{.fd = taken_.get(), .events = POLLIN, .revents = 0};
    return ::poll(&one, 1, 0) == 1 && (one.revents & POLLIN) != 0;
  }
  bool is_killed() const { return process_ > 0 && ::waitpid(process_, nullptr, WNOHANG) != 0; }
  void end() {
    if (process_ < 0) return;
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
    process_ = -1;
  }

 private:
  static void take(std::uint64_t bytes) {
    constexpr std::uint64_t step = 4 * mib;
    char* const memory = static_cast<char*>(
        ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    // Each step waits for itself: what an emulator's pause held up is not made up for.
    for (std::uint64_t at = 0; at < bytes; at += step) {
      const Nanoseconds due = monotonic_now() + Nanoseconds(step * 1'000'000'000 / rate);
      for (std::uint64_t one = at; one < at + step; one += 4096) memory[one] = 1;
      while (monotonic_now() < due) ::poll(nullptr, 0, 1);
    }
  }

  UniqueFd go_, taken_;
  pid_t process_ = -1;
};

bool within(Client& client, std::chrono::seconds bound, const std::function<bool()>& condition) {
  const Nanoseconds end = monotonic_now() + bound;
  while (!condition()) {
    if (monotonic_now() > end) return false;
    client.wait();
  }
  return true;
}

std::uint64_t budget_of(const Json& status) {
  return status["devices"][0]["budget_bytes"].get<std::uint64_t>();
}

TEST(ServiceUnderV2, GivesBackWhatANeighbourTakesAndRecoversWithoutSwinging) {
  const GuestCgroup cgroup("serves");
  cgroup.write("memory.max", limit);
  Neighbour neighbour(cgroup);
  cgroup.enter();
  ServiceProcess service({.capacity_bytes = capacity, .page_bytes = page, .more = {}});
  GuestCgroup::leave();
  const std::filesystem::path model = service.folder() / "model.safetensors";
  write_stamped(model);
  Client client(service);
  client.read(model);
  ASSERT_TRUE(within(client, std::chrono::seconds(60), [&] {
    return client.ask("status")["devices"][0]["used_bytes"].get<std::uint64_t>() >= capacity - 8 * mib;
  })) << service.log();
  const Json before = client.ask("status");
  EXPECT_EQ(before["pressure"]["cgroup"]["max_bytes"], limit);
  EXPECT_EQ(before["pressure"]["falls"], 0);

  neighbour.go();
  ASSERT_TRUE(within(client, std::chrono::seconds(60),
                     [&] { return neighbour.has_taken() || neighbour.is_killed(); }));
  EXPECT_EQ(cgroup.figure("memory.events", "oom_kill"), 0u);
  ASSERT_TRUE(neighbour.has_taken()) << "the neighbour was killed";
  const Json squeezed = client.ask("status");
  EXPECT_GT(squeezed["pressure"]["falls"], 0);
  EXPECT_LT(budget_of(squeezed), capacity - 32 * mib);
  neighbour.end();

  std::optional<std::uint64_t> falls;  // When it first rose.
  EXPECT_TRUE(within(client, std::chrono::seconds(90), [&] {
    const Json status = client.ask("status");
    if (!falls && status["pressure"]["rises"] > 0) falls = status["pressure"]["falls"].get<std::uint64_t>();
    return budget_of(status) >= capacity - 8 * mib && status["pressure"]["level"] == "calm";
  })) << client.ask("status").dump(1);
  EXPECT_EQ(client.ask("status")["pressure"]["falls"], falls.value_or(0));
  fmt::print("budget {} MiB when squeezed, {} falls, {} stamps compared\n", budget_of(squeezed) / mib,
             falls.value_or(0), client.seen());
  EXPECT_EQ(client.wrong(), 0u);
  EXPECT_EQ(cgroup.figure("memory.events", "oom_kill"), 0u);
  client.wait();
  EXPECT_TRUE(std::ranges::any_of(client.levels(), [](std::uint32_t level) { return level > 0; }));
  EXPECT_EQ(client.levels().empty() ? 9 : client.levels().back(), 0u);
}

TEST(ServiceUnderV2, ReportsWhatEachProbeCameToAndLeavesNothingWhenItIsKilled) {
  // The kernel may still be about to give those of an earlier service back.
  const std::set<std::uint32_t> others = test::programs_named("page_cache_add");
  const auto ours = [&] {
    std::set<std::uint32_t> programs = test::programs_named("page_cache_add");
    std::erase_if(programs, [&](std::uint32_t program) { return others.contains(program); });
    return programs.size();
  };
  ServiceProcess service(
      {.capacity_bytes = 16 * mib, .page_bytes = page, .more = "[probes]\ntime_faults = true\n"});
  {
    Client client(service);
    ASSERT_TRUE(
        within(client, std::chrono::seconds(20), [&] { return !client.ask("doctor")["probes"].empty(); }));
    const Json doctor = client.ask("doctor");
    EXPECT_EQ(doctor["probe_level"], "traced_and_faults");
    EXPECT_EQ(doctor["probes"].size(), 9u);
    for (const Json& probe : doctor["probes"]) {
      fmt::print("{}: {} {}\n", probe["name"].get<std::string>(), probe["how"].get<std::string>(),
                 probe["why"].get<std::string>());
      EXPECT_TRUE(probe["attached"].get<bool>());
      EXPECT_NE(probe["how"], "");
      // Another alternative than the best says why.
      EXPECT_EQ(probe["how"].get<std::string>().starts_with("fentry/"), probe["why"] != "");
    }
  }
  EXPECT_GT(ours(), 0u);
  service.kill();
  EXPECT_TRUE(eventually([&] { return ours() == 0; }));
}

}  // namespace
}  // namespace penstock
