// SPDX-License-Identifier: Apache-2.0
// What page entries cost the service in anonymous memory: tables of 100,000 pages that two clients have open, on a device
// that holds few of them, all of which were paged through once.
//   bench_entries [--folder DIR] [--pages 100000]
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "dataplane/base/check.hpp"
#include "dataplane/base/units.hpp"
#include "service/client/include/penstock.h"
#include "tests/bench/sparse_checkpoint.hpp"
#include "tests/integration/client/service_process.hpp"

namespace penstock::bench {
namespace {

constexpr std::uint64_t second = 1'000'000'000, page_bytes = 2 * mib, device_pages = 64;
constexpr std::uint64_t limit_bytes = 64 * mib;

struct Settings {
  std::string folder = ".";
  std::uint64_t pages = 100'000;
};

Settings parse(int count, char** arguments) {
  Settings settings;
  for (int index = 1; index + 1 < count; index += 2) {
    const std::string name = arguments[index], value = arguments[index + 1];
    if (name == "--folder") settings.folder = value;
    if (name == "--pages") settings.pages = std::stoull(value);
  }
  return settings;
}

std::uint64_t anonymous_bytes(pid_t process) {
  std::ifstream status("/proc/" + std::to_string(process) + "/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("RssAnon:")) return std::stoull(line.substr(8)) * kib;
  }
  CHECK(false);
}

struct Client {
  pst_client* client = nullptr;
  pst_table* table = nullptr;
};

Client attach(const std::string& socket, const std::string& file) {
  Client one;
  pst_connect_options options{};
  options.size = sizeof options;
  options.socket = socket.c_str();
  pst_checkpoint* checkpoint = nullptr;
  CHECK(pst_connect(&options, &one.client) == PST_DONE);
  CHECK(pst_open(one.client, file.c_str(), &checkpoint) == PST_DONE);
  CHECK(pst_table_open(checkpoint, nullptr, &one.table) == PST_DONE);
  return one;
}

// Every hundredth page, so that the device has been full many times.
void sweep(const Client& one, std::uint64_t pages) {
  for (std::uint64_t page = 0; page < pages; page += 100) {
    CHECK(pst_fault(one.table, page * page_bytes, 1, 30 * second) == PST_DONE);
    CHECK(pst_unpin(one.table, page * page_bytes, 1, nullptr) == PST_DONE);
  }
}

std::uint64_t ring_bytes(const Client& one) {
  char* text = nullptr;
  CHECK(pst_query(one.client, "doctor", "{}", &text) == PST_DONE);
  const auto status = nlohmann::json::parse(text);
  pst_release_text(text);
  return status["reader"].value("ring_bytes", std::uint64_t{0});
}

int run(const Settings& settings) {
  const test::ServiceProcess service(
      {.capacity_bytes = device_pages * page_bytes, .page_bytes = page_bytes, .more = ""}, settings.folder);
  const std::uint64_t idle = anonymous_bytes(service.pid());
  const std::string file = write_sparse_checkpoint(service.folder().path(), settings.pages * page_bytes);
  const Client first = attach(service.socket(), file), second_client = attach(service.socket(), file);
  const std::uint64_t open = anonymous_bytes(service.pid());
  sweep(first, settings.pages);
  sweep(second_client, settings.pages);
  const std::uint64_t used = anonymous_bytes(service.pid()), ring = ring_bytes(first);
  const std::uint64_t above = used > ring ? used - ring : 0;
  const nlohmann::json report{
      {"name", "anonymous_memory_of_page_entries"},
      {"pages", settings.pages},
      {"clients", 2},
      {"idle_bytes", idle},
      {"open_bytes", open},
      {"swept_bytes", used},
      {"ring_bytes", ring},
      {"above_ring_bytes", above},
      {"bytes_per_page", static_cast<double>(used - idle) / static_cast<double>(settings.pages)},
      {"limit_bytes", limit_bytes},
      {"holds", used <= limit_bytes + ring}};
  std::printf("%s\n", report.dump(2).c_str());
  pst_disconnect(first.client);
  pst_disconnect(second_client.client);
  return used <= limit_bytes + ring ? 0 : 1;
}

}  // namespace
}  // namespace penstock::bench

int main(int count, char** arguments) {
  if (penstock::test::service_program().empty()) {
    std::fprintf(stderr, "bench_entries requires penstockd in PENSTOCK_BUILD_DIR/bin\n");
    return 1;
  }
  return penstock::bench::run(penstock::bench::parse(count, arguments));
}
