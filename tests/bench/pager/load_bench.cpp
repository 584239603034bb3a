// SPDX-License-Identifier: Apache-2.0
// Cold load of a checkpoint into host frames through the pager, beside a minimal loop of direct reads into the same
// kind of frames, and beside fio's best direct rate, in turns.
//   bench_pager_load [--folder DIR] [--bytes 1GiB] [--rounds 15] [--in-flight 16MiB] [--read 1MiB]
// The frames of both contenders are populated before the clock starts, as the device's pool does it in the background.
#include <array>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <poll.h>
#include <nlohmann/json.hpp>

#include "dataplane/base/check.hpp"
#include "dataplane/base/clock.hpp"
#include "dataplane/base/units.hpp"
#include "dataplane/device/host/host_device.hpp"
#include "tests/bench/bench_file.hpp"
#include "tests/bench/fio.hpp"
#include "tests/bench/pager/bench_device.hpp"
#include "tests/bench/pager/minimal_loop.hpp"
#include "tests/bench/reserved_huge_pages.hpp"
#include "tests/bench/statistics.hpp"
#include "tests/support/random_file.hpp"

namespace penstock::bench {
namespace {

struct Settings {
  std::string folder = ".";
  std::uint64_t bytes = 1 * gib;
  int rounds = 15;
  std::uint64_t in_flight = 16 * mib;
  std::uint64_t read_bytes = 1 * mib;
};

std::uint64_t size_argument(const std::string& text) {
  const auto bytes = parse_bytes(text);
  CHECK(bytes);
  return *bytes;
}

Settings parse(int count, char** arguments) {
  Settings settings;
  for (int index = 1; index + 1 < count; index += 2) {
    const std::string name = arguments[index], value = arguments[index + 1];
    if (name == "--folder") settings.folder = value;
    if (name == "--bytes") settings.bytes = size_argument(value);
    if (name == "--rounds") settings.rounds = std::stoi(value);
    if (name == "--in-flight") settings.in_flight = size_argument(value);
    if (name == "--read") settings.read_bytes = size_argument(value);
  }
  return settings;
}

// The whole checkpoint through the pager of one device; everything is evicted again after each load.
class PagerContender {
 public:
  PagerContender(const Settings& settings, const std::shared_ptr<CheckpointFile>& file)
      : device_(settings.bytes),
        thread_(device_.start({.bulk_bytes_in_flight = settings.in_flight}, settings.read_bytes)) {
    device_.open_table(*thread_, TableId{1}, file);
  }

  double rate() {
    device_.wait_until_ready();
    const Nanoseconds start = monotonic_now();
    const RequestDone done = ask(*thread_, mail::LoadTable{.table = TableId{1}});
    const double seconds = std::chrono::duration<double>(monotonic_now() - start).count();
    CHECK(done.result == TicketResult::done);
    direct_fraction = static_cast<double>(done.direct_bytes) / static_cast<double>(done.bytes);
    CHECK(ask(*thread_, mail::EvictTable{.table = TableId{1}}).result == TicketResult::done);
    return static_cast<double>(done.bytes) / seconds;
  }
  std::string backend() const { return thread_->reader().backend; }
  double huge_fraction() const { return device_.huge_fraction(); }

  double direct_fraction = 0;

 private:
  BenchDevice device_;
  std::unique_ptr<DataplaneThread> thread_;
};

int run(const Settings& settings) {
  const BenchFile file(settings.folder, settings.bytes);
  const auto checkpoint = CheckpointFile::open(file.path());
  CHECK(checkpoint);
  PagerContender pager(settings, *checkpoint);
  MinimalLoop loop(settings.bytes, settings.read_bytes, settings.in_flight);

  const ReservedHugePages pages(16);
  const auto shape = fastest_fio_shape(file.path(), file.bytes(), pages.available(), 2);
  std::vector<double> over_loop, over_fio, ours, theirs, fio;
  for (int round = 0; round < settings.rounds; ++round) {
    // Each goes first in every other round, so that a drift of the device favours neither.
    double own = 0, minimal = 0;
    for (int turn = 0; turn < 2; ++turn) {
      test::drop_from_page_cache(file.path());
      ((turn + round) % 2 == 0 ? own : minimal) =
          (turn + round) % 2 == 0 ? pager.rate() : loop.rate(**checkpoint);
    }
    over_loop.push_back(own / minimal);
    ours.push_back(own);
    theirs.push_back(minimal);
    // It fails when somebody else gives reserved huge pages back meanwhile.
    const auto limit = shape ? fio_read_rate(file.path(), file.bytes(), *shape) : std::nullopt;
    if (!limit) continue;
    fio.push_back(*limit);
    over_fio.push_back(own / *limit);
  }
  nlohmann::json report = {{"name", "cold_load_into_frames"},
                           {"file_bytes", file.bytes()},
                           {"rounds", settings.rounds},
                           {"ratio_to_minimal_loop", median(over_loop)},
                           {"ratio_to_minimal_loop_least", least(over_loop)},
                           {"ratio_to_minimal_loop_greatest", greatest(over_loop)},
                           {"bytes_per_second", median(ours)},
                           {"minimal_loop_bytes_per_second", median(theirs)},
                           {"in_flight_bytes", settings.in_flight},
                           {"read_bytes", settings.read_bytes},
                           {"direct_fraction", pager.direct_fraction},
                           {"backend", pager.backend()},
                           {"frames", "populated before the clock starts, for both"},
                           {"frames_huge_fraction", pager.huge_fraction()}};
  if (!fio.empty()) {
    report["fio_rounds"] = fio.size();
    report["ratio_to_fio"] = median(over_fio);
    report["ratio_to_fio_least"] = least(over_fio);
    report["ratio_to_fio_greatest"] = greatest(over_fio);
    report["fio_bytes_per_second"] = median(fio);
    report["fio_shape"] = fmt::format("bs={} iodepth={} iomem={}", shape->block, shape->depth,
                                      shape->huge_pages ? "mmaphuge" : "mmap");
  } else {
    report["ratio_to_fio"] = "requires fio with the io_uring engine";
  }
  std::printf("%s\n", report.dump(2).c_str());
  return 0;
}

}  // namespace
}  // namespace penstock::bench

int main(int count, char** arguments) {
  return penstock::bench::run(penstock::bench::parse(count, arguments));
}
