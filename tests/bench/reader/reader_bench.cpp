// SPDX-License-Identifier: Apache-2.0
// Cold read of a whole file into the staging ring's slots, beside fio's best direct rate on the same file, in pairs.
//   bench_reader [--folder DIR] [--bytes 2GiB] [--pairs 15] [--slot 512KiB] [--in-flight 8MiB] [--io uring|pread]
#include <fmt/format.h>
#include <poll.h>
#include <sys/resource.h>

#include <array>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "dataplane/base/check.hpp"
#include "dataplane/base/clock.hpp"
#include "dataplane/base/units.hpp"
#include "dataplane/io/open_reader.hpp"
#include "dataplane/io/pread_reader.hpp"
#include "dataplane/io/read_stream.hpp"
#include "tests/bench/bench_file.hpp"
#include "tests/bench/fio.hpp"
#include "tests/bench/reserved_huge_pages.hpp"
#include "tests/bench/statistics.hpp"
#include "tests/support/random_file.hpp"

namespace penstock::bench {
namespace {

struct Settings {
  std::string folder = ".";
  std::uint64_t bytes = 2 * gib;
  int pairs = 15;
  std::uint64_t slot_bytes = 512 * kib;
  std::uint64_t in_flight = 8 * mib;
  ReaderOptions::Io io = ReaderOptions::Io::automatic;
};

double seconds(Nanoseconds span) { return std::chrono::duration<double>(span).count(); }

double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto of = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return of(usage.ru_utime) + of(usage.ru_stime);
}

struct Measurement {
  double bytes_per_second = 0;
  double cpu_ms_per_gib = 0;
  double direct_fraction = 0;
};

// Reads the file once, each extent into a slot that is free again as soon as it is filled.
Measurement read_once(ReadStream& stream, PinnedRing& ring, StreamFile file, std::uint64_t file_bytes) {
  const ReadCounters before = stream.counters();
  const double cpu = cpu_seconds();
  const Nanoseconds start = monotonic_now();
  std::uint64_t pushed = 0;
  std::uint64_t filled = 0;
  std::array<ReadStream::Answer, 64> answers;
  while (filled < file_bytes) {
    const std::size_t count = stream.poll(monotonic_now(), answers);
    for (std::size_t index = 0; index < count; ++index) {
      CHECK(answers[index].ok);
      filled += std::min(answers[index].bytes, ring.slot_bytes());
      ring.give_back(SlotId{static_cast<std::uint16_t>(answers[index].tag)});
    }
    bool more = false;
    while (pushed < file_bytes) {
      const auto slot = ring.take();
      if (!slot) break;
      const std::uint64_t needed = std::min(ring.slot_bytes(), file_bytes - pushed);
      stream.push({.file = file,
                   .extent = {.offset = pushed, .length = round_up(needed, small_page_bytes)},
                   .needed_bytes = needed,
                   .destination = ring.address(*slot),
                   .slot = *slot,
                   .tag = raw(*slot)});
      pushed += needed;
      more = true;
    }
    if (more || count > 0) continue;
    pollfd wait{.fd = stream.event_fd(), .events = POLLIN, .revents = 0};
    (void)::poll(&wait, 1, 100);
  }
  const double took = seconds(monotonic_now() - start);
  const double gibibytes = static_cast<double>(file_bytes) / static_cast<double>(gib);
  return {.bytes_per_second = static_cast<double>(file_bytes) / took,
          .cpu_ms_per_gib = (cpu_seconds() - cpu) * 1e3 / gibibytes,
          .direct_fraction = static_cast<double>(stream.counters().direct_bytes - before.direct_bytes) /
                             static_cast<double>(file_bytes)};
}

std::uint64_t size_argument(const std::string& text) {
  const auto bytes = parse_bytes(text);
  CHECK(bytes);
  return *bytes;
}

Settings parse(int count, char** arguments) {
  Settings settings;
  std::map<std::string, std::string> given;
  for (int index = 1; index + 1 < count; index += 2) given[arguments[index]] = arguments[index + 1];
  for (const auto& [name, value] : given) {
    if (name == "--folder") settings.folder = value;
    if (name == "--bytes") settings.bytes = size_argument(value);
    if (name == "--pairs") settings.pairs = std::stoi(value);
    if (name == "--slot") settings.slot_bytes = size_argument(value);
    if (name == "--in-flight") settings.in_flight = size_argument(value);
    if (name == "--io" && value == "uring") settings.io = ReaderOptions::Io::uring;
    if (name == "--io" && value == "pread") settings.io = ReaderOptions::Io::pread;
  }
  return settings;
}

// A ring with its reader and stream, and what it measured.
struct Contender {
  std::unique_ptr<PinnedRing> ring;
  ReaderReport report;
  std::unique_ptr<ReadStream> stream;
  StreamFile file{};
  double open_seconds = 0;
  std::vector<double> ratios, rates, cpu;
  double direct_fraction = 1;

  void measure(const BenchFile& bench_file) {
    test::drop_from_page_cache(bench_file.path());
    const Measurement one = read_once(*stream, *ring, file, bench_file.bytes());
    rates.push_back(one.bytes_per_second);
    cpu.push_back(one.cpu_ms_per_gib);
    direct_fraction = std::min(direct_fraction, one.direct_fraction);
  }
  nlohmann::json report_json() const {
    return {{"ratio_to_fio", median(ratios)},
            {"ratio_to_fio_least", least(ratios)},
            {"ratio_to_fio_greatest", greatest(ratios)},
            {"bytes_per_second", median(rates)},
            {"cpu_ms_per_gib", median(cpu)},
            {"direct_fraction", direct_fraction},
            {"backend", report.backend},
            {"reason", report.reason},
            {"ring_bytes", report.ring_bytes},
            {"ring_huge_bytes", report.huge_bytes},
            {"open_seconds", open_seconds}};
  }
};

Contender open_contender(const Settings& settings, const BenchFile& bench_file, bool reserved_huge_pages) {
  Contender contender;
  const Nanoseconds opening = monotonic_now();
  auto ring = PinnedRing::make({.slot_bytes = settings.slot_bytes,
                                .slots = static_cast<std::uint32_t>(32 * mib / settings.slot_bytes),
                                .reserved_huge_pages = reserved_huge_pages});
  CHECK(ring);
  contender.ring = *std::move(ring);
  auto opened = open_reader({.io = settings.io}, contender.ring.get());
  CHECK(opened);
  contender.open_seconds = seconds(monotonic_now() - opening);
  contender.report = opened->report;
  auto stream =
      ReadStream::make(std::move(opened->reader), nullptr, {.bulk_bytes_in_flight = settings.in_flight});
  CHECK(stream);
  contender.stream = *std::move(stream);
  const auto checkpoint = CheckpointFile::open(bench_file.path());
  CHECK(checkpoint);
  const auto added = contender.stream->add(*checkpoint);
  CHECK(added);
  contender.file = *added;
  return contender;
}

int run(const Settings& settings) {
  const BenchFile file(settings.folder, settings.bytes);
  const ReservedHugePages pages(64);  // More than both need: another process may take some.
  // On fio's footing, and in the pages that a system has when nobody reserved any.
  std::array<Contender, 2> contenders = {open_contender(settings, file, pages.available()),
                                         open_contender(settings, file, false)};
  const auto shape = fastest_fio_shape(file.path(), file.bytes(), pages.available(), 3);
  if (!shape) {
    std::fprintf(stderr, "requires fio with the io_uring engine\n");
    return 1;
  }
  std::vector<double> fio;
  for (int pair = 0; pair < settings.pairs; ++pair) {
    // Each goes first in turn, so that a drift of the device favours none.
    for (int turn = 0; turn < 3; ++turn) {
      const auto who = static_cast<std::size_t>(pair + turn) % 3;
      if (who < contenders.size()) {
        contenders[who].measure(file);
        continue;
      }
      const auto rate = fio_read_rate(file.path(), file.bytes(), *shape);
      if (!rate) {
        std::fprintf(stderr, "fio failed in pair %d\n", pair);
        return 1;
      }
      fio.push_back(*rate);
    }
    for (Contender& contender : contenders) contender.ratios.push_back(contender.rates.back() / fio.back());
  }
  nlohmann::json report = contenders[0].report_json();
  report["name"] = "cold_read_into_slots";
  report["file_bytes"] = file.bytes();
  report["pairs"] = settings.pairs;
  report["fio_bytes_per_second"] = median(fio);
  report["fio_shape"] = fmt::format("bs={} iodepth={} iomem={}", shape->block, shape->depth,
                                    shape->huge_pages ? "mmaphuge" : "mmap");
  report["slot_bytes"] = settings.slot_bytes;
  report["in_flight_bytes"] = settings.in_flight;
  report["ring_huge_pages"] = pages.available() ? "reserved" : "transparent";
  report["with_transparent_huge_pages"] = contenders[1].report_json();
  std::printf("%s\n", report.dump(2).c_str());
  return 0;
}

}  // namespace
}  // namespace penstock::bench

int main(int count, char** arguments) {
  return penstock::bench::run(penstock::bench::parse(count, arguments));
}
