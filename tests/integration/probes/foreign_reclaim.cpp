// SPDX-License-Identifier: Apache-2.0
#include "tests/integration/probes/foreign_reclaim.hpp"

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>

#include "bpf/cgroup_text.hpp"
#include "bpf/text_file.hpp"
#include "dataplane/base/check.hpp"

namespace penstock::test {
namespace {

constexpr std::string_view damon_prefix = "kdamond";

// The files that say how long DAMON's threads ran, of those that were there at first.
const std::vector<std::string>& damon_threads() {
  static const std::vector<std::string> threads = [] {
    std::vector<std::string> found;
    std::error_code gone;
    for (const auto& entry : std::filesystem::directory_iterator("/proc", gone)) {
      const auto name = read_text(AT_FDCWD, (entry.path() / "comm").c_str());
      if (name && name->starts_with(damon_prefix)) found.push_back(entry.path() / "schedstat");
    }
    return found;
  }();
  return threads;
}

std::string excess(const PagesByCause& removed, RemovalCause expected, const ForeignReclaim& before) {
  const ForeignReclaim now = ForeignReclaim::read();
  const auto check = [&](RemovalCause cause, std::uint64_t bound) -> std::string {
    const std::int64_t pages = removed[static_cast<std::size_t>(cause)];
    if (cause == expected || pages <= static_cast<std::int64_t>(bound)) return {};
    return fmt::format("{} pages by {}, which took at most {}; ", pages, removal_cause_name(cause), bound);
  };
  const auto all_if = [](bool happened) { return happened ? std::uint64_t{INT64_MAX} : 0; };
  return check(RemovalCause::kswapd, now.kswapd_pages - before.kswapd_pages) +
         check(RemovalCause::direct_reclaim, now.direct_pages - before.direct_pages) +
         check(RemovalCause::drop_caches, all_if(now.drops > before.drops)) +
         check(RemovalCause::other_reclaim, all_if(now.damon_ns > before.damon_ns));
}

}  // namespace

ForeignReclaim ForeignReclaim::read() {
  const auto vmstat = read_text(AT_FDCWD, "/proc/vmstat");
  CHECK(vmstat);
  ForeignReclaim now;
  const auto kswapd = stat_value(*vmstat, "pgsteal_kswapd"), direct = stat_value(*vmstat, "pgsteal_direct");
  CHECK(kswapd && direct);
  now.kswapd_pages = *kswapd;
  now.direct_pages = *direct;
  now.drops = stat_value(*vmstat, "drop_pagecache").value_or(0);
  for (const std::string& thread : damon_threads()) {
    const auto times = read_text(AT_FDCWD, thread.c_str());
    if (times) now.damon_ns += std::strtoull(times->c_str(), nullptr, 10);
  }
  return now;
}

std::string more_than_others_took(const PagesByCause& removed, RemovalCause expected,
                                  const ForeignReclaim& before) {
  const auto bound = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  std::string more = excess(removed, expected, before);
  while (!more.empty() && std::chrono::steady_clock::now() < bound) {
    std::this_thread::yield();
    more = excess(removed, expected, before);
  }
  return more;
}

}  // namespace penstock::test
