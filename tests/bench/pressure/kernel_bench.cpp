// SPDX-License-Identifier: Apache-2.0
// How long after the kernel's own event the first page's memory is given back. A service and a neighbour in one limited
// memory cgroup, of v1 or v2: its probes, its watch and the room that it reads are the kernel's. A round: the neighbour
// takes memory until the limit makes the kernel reclaim the cache of a file that the service follows; the kernel stamps
// that reclaim, and the memory that frames give back is seen where it is accounted. Nothing is ever without room: 16 MiB
// of that cache are left.
//
// A governor that looks in time gives back before the kernel has to reclaim. Such rounds are counted apart, and have no
// time. Ends with 1 when the 99th percentile of the others is above the limit, or too few of them came.
//   bench_pressure_kernel [--triggers 200]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/wait.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include "bpf/cgroup_headroom.hpp"
#include "bpf/cgroup_use.hpp"
#include "bpf/kernel_probes.hpp"
#include "dataplane/base/check.hpp"
#include "service/control/kernel_watch.hpp"
#include "tests/bench/pressure/neighbour.hpp"
#include "tests/bench/pressure/pressure_node.hpp"
#include "tests/bench/pressure/stamped.hpp"
#include "tests/bench/sparse_checkpoint.hpp"
#include "tests/integration/headroom/limited_cgroup.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/temporary_folder.hpp"

namespace penstock::bench {
namespace {

constexpr std::uint64_t limit_bytes = 512 * mib;
constexpr std::uint64_t low = limit_bytes / 8;        // The policy's line for this limit.
constexpr std::uint64_t cache_bytes = low - 8 * mib;  // The kernel reclaims when no more than this is left.
constexpr std::uint64_t left_bytes = 16 * mib;        // By the neighbour.
constexpr std::uint64_t chunk_bytes = 1 * mib;
constexpr double limit_ms = 50.0;
constexpr int rounds_each = 5;  // At most, for each trigger that is asked for.

double milliseconds(Nanoseconds time) { return static_cast<double>(time.count()) / 1e6; }

// What the kernel says of the cgroup at this moment.
class OwnCgroup {
 public:
  std::uint64_t room() { return files_.read(unheard_).headroom.value_or(0); }
  std::uint64_t cache() { return use_.read_use(files_.directory()).page_cache.value_or(0); }

 private:
  const UniqueFd root_{::open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  Warnings unheard_;
  CgroupFiles files_ = CgroupFiles::open(root_.get(), unheard_);
  CgroupUseFiles use_{files_.version()};
};

// Files whose page cache stands for what the kernel can reclaim. Two in turn: the probes tell of a file's reclaim after
// it was left alone for a while.
class CachedFiles {
 public:
  explicit CachedFiles(const test::TemporaryFolder& folder) {
    for (const char* name : {"a", "b"}) {
      std::filesystem::create_directory(folder / name);
      paths.push_back(write_sparse_checkpoint(folder / name, low));
      fds_.emplace_back(::open(paths.back().c_str(), O_RDONLY | O_CLOEXEC));
      CHECK(fds_.back());
    }
  }
  void drop(const UniqueFd& other) const {
    for (const UniqueFd& fd : fds_) ::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED);
    ::posix_fadvise(other.get(), 0, 0, POSIX_FADV_DONTNEED);
  }
  void fill(std::size_t which, OwnCgroup& cgroup) const {
    std::vector<char> chunk(chunk_bytes);
    for (std::uint64_t at = 0; at < low && cgroup.cache() < cache_bytes; at += chunk_bytes)
      CHECK(::pread(fds_[which].get(), chunk.data(), chunk.size(), static_cast<off_t>(at)) > 0);
  }
  std::vector<std::string> paths;

 private:
  std::vector<UniqueFd> fds_;
};

struct Figures {
  int rounds = 0;
  std::vector<double> times;    // From the kernel's event to the first memory.
  std::vector<double> heard;    // To the service's hearing of it.
  std::vector<double> earlier;  // By how much memory was given back before the event.
  int without_event = 0;        // As above, and the kernel had nothing to reclaim any more.
  std::vector<double> gib_a_second;

  void add(const RoundTimes& times_of_round) {
    ++rounds;
    if (!times_of_round.event) {
      ++without_event;
    } else if (*times_of_round.given_back < *times_of_round.event) {
      earlier.push_back(milliseconds(*times_of_round.event - *times_of_round.given_back));
    } else {
      times.push_back(milliseconds(*times_of_round.given_back - *times_of_round.event));
      heard.push_back(milliseconds(*times_of_round.heard - *times_of_round.event));
    }
  }
};

nlohmann::json summary(std::vector<double> values) {
  if (values.empty()) return nullptr;
  std::ranges::sort(values);
  return {{"count", values.size()},
          {"p50", quantile(values, 0.5)},
          {"p90", quantile(values, 0.9)},
          {"p99", quantile(values, 0.99)},
          {"most", values.back()}};
}

int report(const Figures& figures, std::size_t triggers, std::uint64_t kills) {
  double load[3] = {};
  ::getloadavg(load, 3);
  const nlohmann::json times = summary(figures.times);
  const bool holds =
      figures.times.size() >= triggers && times.at("p99").get<double>() <= limit_ms && kills == 0;
  const nlohmann::json answer{{"rounds", figures.rounds},
                              {"event_to_memory_ms", times},
                              {"event_to_service_ms", summary(figures.heard)},
                              {"anticipated",
                               {{"before_the_event", figures.earlier.size()},
                                {"before_the_event_ms", summary(figures.earlier)},
                                {"without_event", figures.without_event}}},
                              {"neighbour_gib_a_second", summary(figures.gib_a_second)},
                              {"oom_kills", kills},
                              {"machine_load", load[0]},
                              {"limit_ms", limit_ms},
                              {"holds", holds}};
  std::printf("%s\n", answer.dump(2).c_str());
  return holds ? 0 : 1;
}

// In the cgroup.
int measure(std::size_t triggers, const test::LimitedCgroup& limited) {
  Neighbour neighbour(limit_bytes);
  spdlog::set_level(spdlog::level::err);
  const test::TemporaryFolder folder;
  const std::string file = write_sparse_checkpoint(folder / ".", file_bytes);
  const UniqueFd fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  const CachedFiles cached(folder);
  OwnCgroup cgroup;
  RoundClock clock(limited.id());
  auto headroom = CgroupHeadroom::open();
  auto alarm = EventFd::create();
  CHECK(headroom && alarm && cgroup.room() < limit_bytes);
  StampedRoom room(**headroom, clock);
  // As kernel_setup makes them.
  KernelWatch watch(std::make_unique<StampedProbes>(KernelProbes::open(), clock),
                    {.remedy = {}, .alarm = [&alarm] { alarm->signal(); }});
  const std::string socket = (folder / "socket").string();
  Node node(socket, room, *alarm, &watch, short_recovery());
  MappingClient client(socket, file);
  for (const std::string& path : cached.paths) client.open_too(path);
  Figures figures;
  while (figures.times.size() < triggers && figures.rounds < rounds_each * static_cast<int>(triggers)) {
    client.map_all();
    cached.drop(fd);
    cached.fill(static_cast<std::size_t>(figures.rounds % 2), cgroup);
    const std::uint64_t bytes = cgroup.room() - left_bytes;
    clock.begin();
    const double seconds = neighbour.take(bytes);
    CHECK(clock.wait_for_memory());
    static_cast<void>(clock.wait_for_event());
    neighbour.give_all();
    figures.add(clock.times());
    figures.gib_a_second.push_back(static_cast<double>(bytes) / static_cast<double>(gib) / seconds);
    CHECK(eventually([&] {
      alarm->signal();
      return node.is_whole();
    }));
  }
  const int code = report(figures, triggers, limited.kills());
  std::fflush(stdout);
  return code;
}

int run(std::size_t triggers) {
  if (const auto probes = KernelProbes::open(); probes->level() < ProbeLevel::traced) {
    std::fprintf(stderr, "bench_pressure_kernel requires the page cache probe: %s\n",
                 probes->report().front().why.c_str());
    return 1;
  }
  std::string why;
  const auto limited = test::LimitedCgroup::make(limit_bytes, why);
  if (!limited) {
    std::fprintf(stderr, "bench_pressure_kernel %s\n", why.c_str());
    return 1;
  }
  const int status = limited->run([&] { return measure(triggers, *limited); });
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

}  // namespace
}  // namespace penstock::bench

int main(int count, char** words) {
  const bool given = count == 3 && std::string(words[1]) == "--triggers";
  return penstock::bench::run(given ? std::stoul(words[2]) : 200);
}
