// SPDX-License-Identifier: Apache-2.0
// What the probes cost those who read and map files: the same work with all of them attached and with none, in turns,
// and the median of the pairs. Time of the thread's own, since others may use the machine, and of each work the shortest of
// three, since a neighbour's use of caches only ever makes it longer. The file is a hole, so that no disk is in it: a major
// fault of a real file takes a hundred microseconds, one of a hole three. What it costs to time it is therefore told apart
// from what it costs to count its page.
//   bench_probes [--folder DIR] [--bytes 268435456] [--rounds 15]
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include "bpf/kernel_probes.hpp"
#include "dataplane/base/check.hpp"
#include "dataplane/base/unique_fd.hpp"
#include "dataplane/base/units.hpp"
#include "tests/bench/statistics.hpp"

namespace penstock::bench {
namespace {

constexpr std::uint64_t page_bytes = 4096;
constexpr std::uint64_t queried_bytes = 4 * gib;
constexpr int tries = 3;
constexpr int warm_passes = 4;

struct Settings {
  std::string folder = ".";
  std::uint64_t bytes = 256 * mib;
  int rounds = 15;
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

// A hole with a name, gone with the object.
class SparseFile {
 public:
  SparseFile(const std::string& folder, const char* name, std::uint64_t bytes)
      : path_(std::filesystem::path(folder) / name),
        fd_(::open(path_.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600)) {
    CHECK(fd_);
    CHECK(::ftruncate(fd_.get(), static_cast<off_t>(bytes)) == 0);
  }
  ~SparseFile() { std::filesystem::remove(path_); }
  SparseFile(const SparseFile&) = delete;
  SparseFile& operator=(const SparseFile&) = delete;
  int fd() const { return fd_.get(); }

 private:
  std::filesystem::path path_;
  UniqueFd fd_;
};

double thread_seconds() {
  timespec now{};
  CHECK(::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now) == 0);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

void forget(int fd) { CHECK(::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0); }

void read_all(int fd, std::uint64_t bytes) {
  static std::vector<char> buffer(1 * mib);
  for (std::uint64_t at = 0; at < bytes; at += buffer.size()) {
    CHECK(::pread(fd, buffer.data(), buffer.size(), static_cast<off_t>(at)) > 0);
  }
}

// Every page by a fault of its own.
void fault_all(int fd, std::uint64_t bytes) {
  void* const memory = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd, 0);
  CHECK(memory != MAP_FAILED);
  CHECK(::madvise(memory, bytes, MADV_RANDOM) == 0);
  const volatile char* const at = static_cast<const char*>(memory);
  for (std::uint64_t offset = 0; offset < bytes; offset += page_bytes) (void)at[offset];
  ::munmap(memory, bytes);
}

// The least seconds of one round's works.
struct Round {
  double warm_read = 0, cold_read = 0, faults = 0, evict = 0, evict_large = 0;
};

Round work(int fd, std::uint64_t bytes) {
  Round shortest;
  const auto timed = [](double& least, auto what) {
    const double start = thread_seconds();
    what();
    const double seconds = thread_seconds() - start;
    if (least == 0 || seconds < least) least = seconds;
  };
  forget(fd);
  for (int attempt = 0; attempt < tries; ++attempt) {
    timed(shortest.cold_read, [&] { read_all(fd, bytes); });
    timed(shortest.warm_read, [&] {
      for (int pass = 0; pass < warm_passes; ++pass) read_all(fd, bytes);
    });
    timed(shortest.evict_large, [&] { forget(fd); });
    timed(shortest.faults, [&] { fault_all(fd, bytes); });
    timed(shortest.evict, [&] { forget(fd); });
  }
  return shortest;
}

enum class Mode : std::uint8_t { off, tracked, untracked, tracked_with_fault_times };
constexpr Mode modes[] = {Mode::tracked, Mode::untracked, Mode::tracked_with_fault_times};

Round measure(const Settings& settings, const SparseFile& file, const SparseFile& other, Mode mode) {
  std::unique_ptr<KernelProbes> probes;
  if (mode != Mode::off) {
    probes = KernelProbes::open(
        {.use_bpf = true, .programs = {.time_faults = mode == Mode::tracked_with_fault_times}});
    CHECK(probes->track(mode == Mode::untracked ? other.fd() : file.fd(), nullptr));
  }
  return work(file.fd(), settings.bytes);
}

nlohmann::json against_off(const std::vector<double>& on, const std::vector<double>& off, double bytes) {
  std::vector<double> percent;
  for (std::size_t i = 0; i < on.size(); ++i) percent.push_back((on[i] / off[i] - 1) * 100);
  return {{"off_gb_per_s", bytes / median(off) * 1e-9},
          {"on_gb_per_s", bytes / median(on) * 1e-9},
          {"paired_overhead_percent", median(percent)},
          {"least_percent", least(percent)},
          {"greatest_percent", greatest(percent)}};
}

// Pages and faults of one page each are as many.
double nanoseconds_a_page(const std::vector<double>& on, const std::vector<double>& off, double bytes) {
  std::vector<double> difference;
  for (std::size_t i = 0; i < on.size(); ++i)
    difference.push_back((on[i] - off[i]) * 1e9 * page_bytes / bytes);
  return median(difference);
}

std::vector<double> column(const std::vector<Round>& rounds, double Round::*member) {
  std::vector<double> values;
  for (const Round& round : rounds) values.push_back(round.*member);
  return values;
}

nlohmann::json compare(const std::vector<Round>& on, const std::vector<Round>& off, double bytes) {
  const auto both = [&](double Round::*member, double factor = 1) {
    return against_off(column(on, member), column(off, member), bytes * factor);
  };
  return {
      {"warm_read", both(&Round::warm_read, warm_passes)},
      {"cold_read_of_a_hole", both(&Round::cold_read)},
      {"order_0_mmap_faults", both(&Round::faults)},
      {"evict_ns_per_page", nanoseconds_a_page(column(on, &Round::evict), column(off, &Round::evict), bytes)},
      {"evict_large_folios_ns_per_page",
       nanoseconds_a_page(column(on, &Round::evict_large), column(off, &Round::evict_large), bytes)}};
}

nlohmann::json measure_queries(const Settings& settings) {
  const SparseFile file(settings.folder, "penstock-bench-queried", queried_bytes);
  const auto probes = KernelProbes::open();
  const Result<Tracking> tracking = probes->track(file.fd(), nullptr);
  CHECK(tracking);
  std::vector<double> total, extents;
  std::vector<ExtentSample> samples(probes->extents(tracking->file));
  for (int round = 0; round < settings.rounds; ++round) {
    constexpr int queries = 1000;
    double start = thread_seconds();
    for (int query = 0; query < queries; ++query) CHECK(probes->sample(tracking->file).resident_bytes);
    total.push_back((thread_seconds() - start) / queries * 1e9);
    start = thread_seconds();
    for (int query = 0; query < queries; ++query) {
      CHECK(probes->sample_extents(tracking->file, samples) == samples.size());
    }
    extents.push_back((thread_seconds() - start) / queries * 1e9);
  }
  probes->untrack(tracking->file);
  return {{"bytes", queried_bytes},
          {"sample_ns", median(total)},
          {"extents", samples.size()},
          {"sample_all_extents_ns", median(extents)}};
}

int run(const Settings& settings) {
  if (const auto probes = KernelProbes::open(); probes->level() < ProbeLevel::traced) {
    std::fprintf(stderr, "bench_probes requires the page cache probe: %s\n",
                 probes->report().front().why.c_str());
    return 1;
  }
  const SparseFile file(settings.folder, "penstock-bench-probed", settings.bytes);
  const SparseFile other(settings.folder, "penstock-bench-other", page_bytes);
  // Other probes stay loaded: the kernel takes memory for code from its own when the first programs come, and gives it
  // back with the last; both change what its accesses cost from one round to the next.
  const auto others = KernelProbes::open(
      {.use_bpf = true, .programs = {.left_out = 1u << static_cast<unsigned>(Probe::page_cache)}});
  std::vector<Round> on[std::size(modes)], off[std::size(modes)];
  for (int round = -1; round < settings.rounds; ++round) {
    for (std::size_t i = 0; i < std::size(modes); ++i) {
      // Each pair in the other order than the one before.
      const bool on_first = round % 2 == 0;
      const Round first = measure(settings, file, other, on_first ? modes[i] : Mode::off);
      const Round second = measure(settings, file, other, on_first ? Mode::off : modes[i]);
      if (round < 0) continue;  // The first warms up.
      on[i].push_back(on_first ? first : second);
      off[i].push_back(on_first ? second : first);
    }
  }
  const auto bytes = static_cast<double>(settings.bytes);
  nlohmann::json report{{"name", "overhead_of_the_probes"},
                        {"bytes", settings.bytes},
                        {"rounds", settings.rounds},
                        {"tracked", compare(on[0], off[0], bytes)},
                        {"untracked", compare(on[1], off[1], bytes)},
                        {"tracked_with_fault_times", compare(on[2], off[2], bytes)},
                        {"query", measure_queries(settings)}};
  const auto percent = [&](const char* file_kind, const char* what) {
    return report[file_kind][what]["paired_overhead_percent"].get<double>();
  };
  const bool holds = percent("tracked", "warm_read") <= 1 && percent("untracked", "warm_read") <= 3 &&
                     percent("tracked", "order_0_mmap_faults") <= 4 &&
                     report["tracked"]["evict_ns_per_page"].get<double>() <= 115 &&
                     report["query"]["sample_ns"].get<double>() <= 1000;
  report["limits"] = {{"tracked_warm_read_percent", 1},
                      {"untracked_warm_read_percent", 3},
                      {"order_0_mmap_faults_percent", 4},
                      {"evict_ns_per_page", 115},
                      {"query_ns", 1000}};
  report["holds"] = holds;
  std::printf("%s\n", report.dump(2).c_str());
  return holds ? 0 : 1;
}

}  // namespace
}  // namespace penstock::bench

int main(int count, char** arguments) {
  return penstock::bench::run(penstock::bench::parse(count, arguments));
}
