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

int run(const Settings& settings) {
  const BenchFile file(settings.folder, settings.bytes);
  const Nanoseconds opening = monotonic_now();
  const auto ring = PinnedRing::make({.slot_bytes = settings.slot_bytes,
                                      .slots = static_cast<std::uint32_t>(32 * mib / settings.slot_bytes),
                                      .reserved_huge_pages = false});
  CHECK(ring);
  auto opened = open_reader({.io = settings.io}, ring->get());
  CHECK(opened);
  const double open_seconds = seconds(monotonic_now() - opening);
  auto stream =
      ReadStream::make(std::move(opened->reader), nullptr, {.bulk_bytes_in_flight = settings.in_flight});
  CHECK(stream);
  const auto checkpoint = CheckpointFile::open(file.path());
  CHECK(checkpoint);
  const auto added = (*stream)->add(*checkpoint);
  CHECK(added);

  const ReservedHugePages pages(64);  // More than fio needs: another process may take some.
  const auto shape = fastest_fio_shape(file.path(), file.bytes(), pages.available(), 3);
  if (!shape) {
    std::fprintf(stderr, "requires fio with the io_uring engine\n");
    return 1;
  }
  std::vector<double> ratios, ours, theirs, cpu;
  double direct = 1;
  for (int pair = 0; pair < settings.pairs; ++pair) {
    // Each goes first in every other pair, so that a drift of the device favours neither.
    double fio = pair % 2 == 0 ? fio_read_rate(file.path(), file.bytes(), *shape).value_or(0) : 0;
    test::drop_from_page_cache(file.path());
    const Measurement own = read_once(**stream, **ring, *added, file.bytes());
    if (pair % 2 == 1) fio = fio_read_rate(file.path(), file.bytes(), *shape).value_or(0);
    if (fio <= 0) {
      std::fprintf(stderr, "fio failed in pair %d\n", pair);
      return 1;
    }
    ratios.push_back(own.bytes_per_second / fio);
    ours.push_back(own.bytes_per_second);
    theirs.push_back(fio);
    cpu.push_back(own.cpu_ms_per_gib);
    direct = std::min(direct, own.direct_fraction);
  }
  const nlohmann::json report = {
      {"name", "cold_read_into_slots"},
      {"file_bytes", file.bytes()},
      {"pairs", settings.pairs},
      {"ratio_to_fio", median(ratios)},
      {"ratio_to_fio_least", least(ratios)},
      {"ratio_to_fio_greatest", greatest(ratios)},
      {"bytes_per_second", median(ours)},
      {"fio_bytes_per_second", median(theirs)},
      {"fio_shape", fmt::format("bs={} iodepth={} iomem={}", shape->block, shape->depth,
                                shape->huge_pages ? "mmaphuge" : "mmap")},
      {"cpu_ms_per_gib", median(cpu)},
      {"direct_fraction", direct},
      {"slot_bytes", settings.slot_bytes},
      {"in_flight_bytes", settings.in_flight},
      {"backend", opened->report.backend},
      {"reason", opened->report.reason},
      {"ring_bytes", opened->report.ring_bytes},
      {"ring_huge_bytes", opened->report.huge_bytes},
      {"open_seconds", open_seconds}};
  std::printf("%s\n", report.dump(2).c_str());
  return 0;
}

}  // namespace
}  // namespace penstock::bench

int main(int count, char** arguments) {
  return penstock::bench::run(penstock::bench::parse(count, arguments));
}
