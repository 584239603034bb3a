// SPDX-License-Identifier: Apache-2.0
// A further client attaches to a checkpoint that is resident: it connects, opens the file, opens the table and pins all
// of it. And faults of single pages that are resident, through the library. Medians.
//   bench_attach [--folder DIR] [--bytes 5368709120] [--rounds 9]
#include <cstdio>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "dataplane/base/check.hpp"
#include "dataplane/base/clock.hpp"
#include "dataplane/base/units.hpp"
#include "service/client/include/penstock.h"
#include "tests/bench/sparse_checkpoint.hpp"
#include "tests/bench/statistics.hpp"
#include "tests/integration/client/service_process.hpp"

namespace penstock::bench {
namespace {

constexpr std::uint64_t minute = 60'000'000'000, page_bytes = 8 * mib;
constexpr double limit_ms = 5.0;

struct Settings {
  std::string folder = ".";
  std::uint64_t bytes = 5 * gib;
  int rounds = 9;
};

Settings parse(int count, char** arguments) {
  Settings settings;
  for (int index = 1; index + 1 < count; index += 2) {
    const std::string name = arguments[index], value = arguments[index + 1];
    if (name == "--folder") settings.folder = value;
    if (name == "--bytes") settings.bytes = std::stoull(value);
    if (name == "--rounds") settings.rounds = std::stoi(value);
  }
  return settings;
}

struct Attached {
  pst_client* client = nullptr;
  pst_table* table = nullptr;
  double connect_ms = 0, open_ms = 0, table_ms = 0, pin_ms = 0;
  double all_ms() const { return connect_ms + open_ms + table_ms + pin_ms; }
};

template <class Step>
double milliseconds_of(Step step) {
  const Nanoseconds start = monotonic_now();
  const pst_status status = step();
  const auto taken = static_cast<double>((monotonic_now() - start).count()) / 1e6;
  if (status != PST_DONE) std::fprintf(stderr, "%s\n", pst_status_name(status));
  CHECK(status == PST_DONE);
  return taken;
}

Attached attach(const std::string& socket, const std::string& file, std::uint64_t bytes) {
  Attached one;
  pst_connect_options options{};
  options.size = sizeof options;
  options.socket = socket.c_str();
  pst_checkpoint* checkpoint = nullptr;
  one.connect_ms = milliseconds_of([&] { return pst_connect(&options, &one.client); });
  one.open_ms = milliseconds_of([&] { return pst_open(one.client, file.c_str(), &checkpoint); });
  one.table_ms = milliseconds_of([&] { return pst_table_open(checkpoint, nullptr, &one.table); });
  one.pin_ms = milliseconds_of([&] { return pst_fault(one.table, 0, bytes, minute); });
  return one;
}

nlohmann::json measure_attach(const std::string& socket, const std::string& file, std::uint64_t bytes,
                              int rounds) {
  std::vector<double> all, connects, opens, tables, pins;
  for (int round = 0; round <= rounds; ++round) {
    const Attached one = attach(socket, file, bytes);
    pst_disconnect(one.client);
    if (round == 0) continue;  // The first warms up.
    all.push_back(one.all_ms());
    connects.push_back(one.connect_ms);
    opens.push_back(one.open_ms);
    tables.push_back(one.table_ms);
    pins.push_back(one.pin_ms);
  }
  return {{"frames", divide_up(bytes, page_bytes)},
          {"attach_ms", median(all)},
          {"attach_least_ms", least(all)},
          {"connect_ms", median(connects)},
          {"open_checkpoint_ms", median(opens)},
          {"open_table_ms", median(tables)},
          {"pin_all_ms", median(pins)}};
}

// One page after the other, each resident and not mapped here.
nlohmann::json measure_faults(const std::string& socket, const std::string& file, std::uint64_t bytes) {
  const Attached one = attach(socket, file, page_bytes);
  std::vector<double> times;
  for (std::uint64_t at = page_bytes; at < bytes; at += page_bytes) {
    times.push_back(1e3 * milliseconds_of([&] { return pst_fault(one.table, at, 1, minute); }));
  }
  pst_disconnect(one.client);
  std::ranges::sort(times);
  return {{"count", times.size()}, {"p50_us", median(times)}, {"p99_us", times[times.size() * 99 / 100]}};
}

int run(const Settings& settings) {
  const test::ServiceProcess service(
      {.capacity_bytes = settings.bytes + 64 * page_bytes, .page_bytes = page_bytes, .more = ""},
      settings.folder);
  const std::string file = write_sparse_checkpoint(service.folder().path(), settings.bytes);
  const Attached first = attach(service.socket(), file, settings.bytes);
  nlohmann::json sizes = nlohmann::json::array();
  for (const std::uint64_t part : {8, 4, 2, 1}) {
    sizes.push_back(measure_attach(service.socket(), file, settings.bytes / part, settings.rounds));
  }
  const double whole = sizes.back()["attach_ms"];
  const double growth = (whole - sizes.front()["attach_ms"].get<double>()) /
                        (sizes.back()["frames"].get<double>() - sizes.front()["frames"].get<double>());
  const nlohmann::json report{{"name", "attach_to_a_resident_checkpoint"},
                              {"bytes", settings.bytes},
                              {"rounds", settings.rounds},
                              {"first_client_ms", first.all_ms()},
                              {"attach", sizes},
                              {"growth_us_per_frame", growth * 1e3},
                              {"single_page_fault", measure_faults(service.socket(), file, settings.bytes)},
                              {"attach_ms", whole},
                              {"limit_ms", limit_ms},
                              {"holds", whole <= limit_ms}};
  std::printf("%s\n", report.dump(2).c_str());
  pst_disconnect(first.client);
  return whole <= limit_ms ? 0 : 1;
}

}  // namespace
}  // namespace penstock::bench

int main(int count, char** arguments) {
  if (penstock::test::service_program().empty()) {
    std::fprintf(stderr, "bench_attach requires penstockd in PENSTOCK_BUILD_DIR/bin\n");
    return 1;
  }
  return penstock::bench::run(penstock::bench::parse(count, arguments));
}
