// SPDX-License-Identifier: Apache-2.0
// What making and destroying host frames costs, with 2 MiB and 4 KiB pages, by one thread and by two; and what of it
// the dataplane thread sees. All variants in turn in each round, medians.
//
// Each variant runs twice in a row: on memory as it is found, and on the memory that the first run just gave back. A
// virtual machine returns free memory to its host within seconds, and the first touch then costs a fault out there.
//   bench_frames [--frame 8MiB] [--bytes 512MiB] [--rounds 7]
#include <array>
#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <poll.h>
#include <sys/resource.h>
#include <nlohmann/json.hpp>

#include "dataplane/base/check.hpp"
#include "dataplane/base/clock.hpp"
#include "dataplane/base/units.hpp"
#include "dataplane/device/host/host_frame_owner.hpp"
#include "tests/bench/statistics.hpp"
#include "tests/support/fixed_headroom.hpp"

namespace penstock::bench {
namespace {

struct Settings {
  std::uint64_t frame_bytes = 8 * mib;
  std::uint64_t bytes = 512 * mib;
  int rounds = 7;
  std::uint64_t frames() const { return bytes / frame_bytes; }
};

double seconds(Nanoseconds span) { return std::chrono::duration<double>(span).count(); }

double system_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_stime.tv_sec) + static_cast<double>(usage.ru_stime.tv_usec) * 1e-6;
}

struct Samples {
  std::vector<double> make_gib_per_second, make_cpu_ms_per_gib, destroy_ms_per_frame, huge_fraction;
};

void make_frames(std::uint64_t count, std::uint64_t bytes, HostPages pages, std::vector<HostFrame>& frames) {
  frames.reserve(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    Result<HostFrame> frame = HostFrame::make(bytes, pages);
    CHECK(frame.has_value());
    frames.push_back(std::move(*frame));
  }
}

// The kernel's part alone, by `threads` threads at once.
void measure_kernel(const Settings& settings, HostPages pages, std::size_t threads, Samples& samples) {
  std::vector<std::vector<HostFrame>> made(threads);
  const double cpu = system_seconds();
  const Nanoseconds start = monotonic_now();
  std::vector<std::thread> makers;
  for (std::vector<HostFrame>& frames : made) {
    makers.emplace_back(make_frames, settings.frames() / threads, settings.frame_bytes, pages,
                        std::ref(frames));
  }
  for (std::thread& maker : makers) maker.join();
  const double took = seconds(monotonic_now() - start);
  std::uint64_t count = 0;
  std::uint64_t huge = 0;
  for (const std::vector<HostFrame>& frames : made) {
    count += frames.size();
    for (const HostFrame& frame : frames) huge += frame.pages() == HostPages::huge;
  }
  const double gibibytes = static_cast<double>(count * settings.frame_bytes) / static_cast<double>(gib);
  samples.make_gib_per_second.push_back(gibibytes / took);
  samples.make_cpu_ms_per_gib.push_back((system_seconds() - cpu) * 1e3 / gibibytes);
  samples.huge_fraction.push_back(static_cast<double>(huge) / static_cast<double>(count));
  const Nanoseconds destroying = monotonic_now();
  made.clear();
  samples.destroy_ms_per_frame.push_back(seconds(monotonic_now() - destroying) * 1e3 /
                                         static_cast<double>(count));
}

struct OwnerSamples {
  std::vector<double> create_ready_ns, destroy_call_ns, drain_ms_per_frame;
};

// What the dataplane thread pays: creation out of a full pool, and destruction, which the maker's thread does later.
void measure_owner(const Settings& settings, OwnerSamples& samples) {
  FixedHeadroom headroom;
  const std::uint64_t count = settings.frames() / 4;
  auto owner = HostFrameOwner::open(
      {.frame_bytes = settings.frame_bytes, .capacity_bytes = settings.bytes, .ready_pool_frames = count},
      headroom);
  CHECK(owner.has_value());
  while ((*owner)->stats().ready < count) std::this_thread::yield();
  std::vector<FrameId> frames;
  const Nanoseconds creating = monotonic_now();
  for (std::uint64_t i = 0; i < count; ++i) {
    CreateDone done;
    (*owner)->create(i);
    CHECK((*owner)->reap(std::span(&done, 1)) == 1 && done.result == CreateResult::created);
    frames.push_back(done.frame);
  }
  samples.create_ready_ns.push_back(seconds(monotonic_now() - creating) * 1e9 / static_cast<double>(count));
  const Nanoseconds destroying = monotonic_now();
  for (const FrameId frame : frames) (*owner)->destroy(frame);
  samples.destroy_call_ns.push_back(seconds(monotonic_now() - destroying) * 1e9 / static_cast<double>(count));
  while ((*owner)->stats().dying > 0) std::this_thread::yield();
  samples.drain_ms_per_frame.push_back(seconds(monotonic_now() - destroying) * 1e3 /
                                       static_cast<double>(count));
}

Settings parse(int count, char** arguments) {
  Settings settings;
  std::map<std::string, std::string> given;
  for (int index = 1; index + 1 < count; index += 2) given[arguments[index]] = arguments[index + 1];
  for (const auto& [name, value] : given) {
    if (name == "--frame") settings.frame_bytes = parse_bytes(value).value_or(8 * mib);
    if (name == "--bytes") settings.bytes = parse_bytes(value).value_or(512 * mib);
    if (name == "--rounds") settings.rounds = std::stoi(value);
  }
  return settings;
}

nlohmann::json to_json(const Samples& samples) {
  return {{"make_gib_per_second", median(samples.make_gib_per_second)},
          {"make_gib_per_second_least", least(samples.make_gib_per_second)},
          {"make_gib_per_second_greatest", greatest(samples.make_gib_per_second)},
          {"make_cpu_ms_per_gib", median(samples.make_cpu_ms_per_gib)},
          {"destroy_ms_per_frame", median(samples.destroy_ms_per_frame)},
          {"huge_fraction", median(samples.huge_fraction)}};
}

int run(const Settings& settings) {
  struct Variant {
    const char* name;
    HostPages pages;
    std::size_t threads;
    Samples as_found{}, recycled{};
  };
  std::array<Variant, 4> variants = {{{"huge_pages", HostPages::huge, 1},
                                      {"small_pages", HostPages::small, 1},
                                      {"huge_pages_two_threads", HostPages::huge, 2},
                                      {"small_pages_two_threads", HostPages::small, 2}}};
  OwnerSamples owner;
  for (int round = 0; round < settings.rounds; ++round) {
    for (Variant& variant : variants) {
      measure_kernel(settings, variant.pages, variant.threads, variant.as_found);
      measure_kernel(settings, variant.pages, variant.threads, variant.recycled);
    }
    measure_owner(settings, owner);
  }
  nlohmann::json result = {{"benchmark", "frames"},
                           {"frame_bytes", settings.frame_bytes},
                           {"bytes", settings.bytes},
                           {"rounds", settings.rounds},
                           {"create_ready_ns", median(owner.create_ready_ns)},
                           {"destroy_call_ns", median(owner.destroy_call_ns)},
                           {"destroy_done_ms_per_frame", median(owner.drain_ms_per_frame)}};
  for (const Variant& variant : variants) {
    result[variant.name] = {{"as_found", to_json(variant.as_found)}, {"recycled", to_json(variant.recycled)}};
  }
  const auto rate = [](const Samples& samples) { return median(samples.make_gib_per_second); };
  result["huge_over_small_as_found"] = rate(variants[0].as_found) / rate(variants[1].as_found);
  result["huge_over_small_recycled"] = rate(variants[0].recycled) / rate(variants[1].recycled);
  fmt::print("{}\n", result.dump(2));
  return 0;
}

}  // namespace
}  // namespace penstock::bench

int main(int count, char** arguments) {
  return penstock::bench::run(penstock::bench::parse(count, arguments));
}
