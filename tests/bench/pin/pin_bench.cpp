// SPDX-License-Identifier: Apache-2.0
// Pin and unpin of a page that is mapped, through the C interface of the shared library, beside the cheapest system call,
// in turns.
//   bench_pin [--rounds 11] [--pins 2000000]
#include <cstdio>
#include <string>
#include <vector>

#include <sys/syscall.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include "dataplane/base/check.hpp"
#include "dataplane/base/clock.hpp"
#include "service/client/include/penstock.h"
#include "tests/bench/statistics.hpp"
#include "tests/integration/client/service_process.hpp"
#include "tests/support/safetensors_file.hpp"

namespace penstock::bench {
namespace {

constexpr std::uint64_t second = 1'000'000'000;
constexpr double limit = 0.25;

struct Settings {
  int rounds = 11;
  int pins = 2'000'000;
};

Settings parse(int count, char** arguments) {
  Settings settings;
  for (int index = 1; index + 1 < count; index += 2) {
    const std::string name = arguments[index], value = arguments[index + 1];
    if (name == "--rounds") settings.rounds = std::stoi(value);
    if (name == "--pins") settings.pins = std::stoi(value);
  }
  return settings;
}

// Nanoseconds of one call of `step`.
template <class Step>
double time_of(int count, Step step) {
  const Nanoseconds start = monotonic_now();
  for (int i = 0; i < count; ++i) step();
  return static_cast<double>((monotonic_now() - start).count()) / count;
}

int run(const Settings& settings) {
  const test::ServiceProcess service;
  const std::string file =
      service.folder().write("m.safetensors", test::safetensors_bytes({{"t", Dtype::u8, {8u << 20}}}));
  pst_connect_options options{};
  options.size = sizeof options;
  const std::string socket = service.socket();
  options.socket = socket.c_str();
  pst_client* client = nullptr;
  pst_checkpoint* checkpoint = nullptr;
  pst_table* table = nullptr;
  CHECK(pst_connect(&options, &client) == PST_DONE);
  CHECK(pst_open(client, file.c_str(), &checkpoint) == PST_DONE);
  CHECK(pst_table_open(checkpoint, nullptr, &table) == PST_DONE);
  CHECK(pst_fault(table, 0, 8u << 20, 30 * second) == PST_DONE);
  CHECK(pst_unpin(table, 0, 8u << 20, nullptr) == PST_DONE);

  const auto pin = [&] {
    CHECK(pst_fault(table, 4096, 100, 0) == PST_DONE);
    CHECK(pst_unpin(table, 4096, 100, nullptr) == PST_DONE);
  };
  const auto ask = [] { static_cast<void>(::syscall(SYS_getppid)); };
  time_of(settings.pins / 10, pin);
  std::vector<double> pins, calls, ratios;
  for (int round = 0; round < settings.rounds; ++round) {
    calls.push_back(time_of(settings.pins / 4, ask));
    pins.push_back(time_of(settings.pins, pin));
    ratios.push_back(pins.back() / calls.back());
  }
  const nlohmann::json report{{"name", "pin_and_unpin_of_a_mapped_page"},
                              {"rounds", settings.rounds},
                              {"pin_unpin_ns", median(pins)},
                              {"pin_unpin_least_ns", least(pins)},
                              {"getppid_ns", median(calls)},
                              {"ratio_to_getppid", median(ratios)},
                              {"limit", limit},
                              {"holds", median(ratios) <= limit}};
  std::printf("%s\n", report.dump(2).c_str());
  pst_disconnect(client);
  return median(ratios) <= limit ? 0 : 1;
}

}  // namespace
}  // namespace penstock::bench

int main(int count, char** arguments) {
  if (penstock::test::service_program().empty()) {
    std::fprintf(stderr, "bench_pin requires penstockd in PENSTOCK_BUILD_DIR/bin\n");
    return 1;
  }
  return penstock::bench::run(penstock::bench::parse(count, arguments));
}
