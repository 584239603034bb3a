// SPDX-License-Identifier: Apache-2.0
// A fault on a page that is resident and not mapped here: over the real socket, between two processes, beside a round
// trip of the same size over a socket of the same kind, in turns.
//   bench_pager_fault [--folder DIR] [--rounds 9] [--faults 2000] [--paced 300]
#include <cstdio>
#include <string>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include "dataplane/base/check.hpp"
#include "dataplane/base/units.hpp"
#include "service/protocol/device_port.hpp"
#include "service/protocol/socket_io.hpp"
#include "tests/bench/bench_file.hpp"
#include "tests/bench/pager/bench_device.hpp"
#include "tests/bench/pager/fault_client.hpp"
#include "tests/bench/statistics.hpp"

namespace penstock::bench {
namespace {

constexpr std::uint32_t pages = 16;

struct Settings {
  std::string folder = ".";
  int rounds = 9;
  std::uint32_t faults = 2000;
  std::uint32_t paced = 300;  // One a millisecond.
};

Settings parse(int count, char** arguments) {
  Settings settings;
  for (int index = 1; index + 1 < count; index += 2) {
    const std::string name = arguments[index], value = arguments[index + 1];
    if (name == "--folder") settings.folder = value;
    if (name == "--rounds") settings.rounds = std::stoi(value);
    if (name == "--faults") settings.faults = static_cast<std::uint32_t>(std::stoul(value));
    if (name == "--paced") settings.paced = static_cast<std::uint32_t>(std::stoul(value));
  }
  return settings;
}

double percentile(std::vector<double> values, double fraction) {
  std::ranges::sort(values);
  return values[static_cast<std::size_t>(fraction * static_cast<double>(values.size() - 1))];
}

void append(std::vector<double>& all, const std::vector<double>& more) {
  all.insert(all.end(), more.begin(), more.end());
}

nlohmann::json summary(const std::vector<double>& times) {
  return {{"p50_us", percentile(times, 0.5)},
          {"p90_us", percentile(times, 0.9)},
          {"p99_us", percentile(times, 0.99)}};
}

// In the client's process. One pace, in turns with echoes; medians of the rounds' medians.
nlohmann::json measure(FaultClient& client, int rounds, std::uint32_t count, Nanoseconds pause) {
  FaultTimes all;
  std::vector<double> echoes, ratios;
  client.faults(count / 4 + 1, pause);
  for (int round = 0; round < rounds; ++round) {
    const std::vector<double> plain = client.echoes(count, pause);
    const FaultTimes times = client.faults(count, pause);
    ratios.push_back(median(times.done) / median(plain));
    append(echoes, plain);
    append(all.granted, times.granted);
    append(all.mapped, times.mapped);
    append(all.done, times.done);
  }
  return {{"fault_until_granted", summary(all.granted)},
          {"fault_until_mapped", summary(all.mapped)},
          {"fault", summary(all.done)},
          {"echo", summary(echoes)},
          {"p50_ratio_to_echo", median(ratios)}};
}

nlohmann::json measure_all(FaultClient& client, const Settings& settings) {
  return {
      {"back_to_back", measure(client, settings.rounds, settings.faults, Nanoseconds{0})},
      {"one_a_millisecond", measure(client, settings.rounds, settings.paced, std::chrono::milliseconds(1))}};
}

std::pair<UniqueFd, UniqueFd> pair() {
  auto made = make_socket_pair();
  CHECK(made);
  return *std::move(made);
}

// Serves the client until it hangs up.
void serve(const Settings& settings, UniqueFd socket, UniqueFd go) {
  BenchDevice device(pages * default_host_frame_bytes);
  const BenchFile file(settings.folder, pages * default_host_frame_bytes);
  const auto checkpoint = CheckpointFile::open(file.path());
  CHECK(checkpoint);
  const auto thread = device.start({}, 1 * mib);
  device.open_table(*thread, TableId{1}, *checkpoint);
  CHECK(ask(*thread, mail::LoadTable{.table = TableId{1}}).result == TicketResult::done);
  const SessionId session{1};
  CHECK(thread->mail().try_push(
      mail::OpenSession{.session = session, .port = std::make_unique<DevicePort>(std::move(socket))}));
  auto pins = PinWords::create(pages);
  CHECK(pins);
  CHECK(thread->mail().try_push(
      mail::AttachTable{.session = session, .table = TableId{1}, .number = TableNumber{1}, .pins = *pins}));
  go.reset();
  int status = 0;
  while (::wait(&status) > 0) CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int run(const Settings& settings) {
  auto [service_end, client_end] = pair();
  auto [echo_end, asking_end] = pair();
  auto [go, told] = pair();
  // Both processes are made before this one has threads.
  if (::fork() == 0) {
    for (UniqueFd* other : {&service_end, &client_end, &asking_end, &go, &told}) other->reset();
    echo(echo_end.get());
    ::_exit(0);
  }
  echo_end.reset();
  if (::fork() == 0) {
    go.reset();
    service_end.reset();
    std::byte nothing{};
    static_cast<void>(
        receive_plain_message(told.get(), {&nothing, 1}, Wait::yes));  // Until the service is ready.
    FaultClient client(std::move(client_end), std::move(asking_end), pages, default_host_frame_bytes);
    nlohmann::json report = measure_all(client, settings);
    report["name"] = "fault_on_a_resident_page";
    report["measured"] =
        "send, grant with one descriptor, map at a fixed place, close, hand the socket back to the "
        "thread that reads meanwhile; as the library does it; the acknowledgement goes with the next message";
    report["page_bytes"] = default_host_frame_bytes;
    report["rounds"] = settings.rounds;
    std::printf("%s\n", report.dump(2).c_str());
    std::fflush(stdout);
    ::_exit(0);
  }
  asking_end.reset();
  client_end.reset();
  told.reset();
  serve(settings, std::move(service_end), std::move(go));
  return 0;
}

}  // namespace
}  // namespace penstock::bench

int main(int count, char** arguments) {
  return penstock::bench::run(penstock::bench::parse(count, arguments));
}
