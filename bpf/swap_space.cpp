// SPDX-License-Identifier: Apache-2.0
#include "bpf/swap_space.hpp"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "bpf/cgroup_text.hpp"
#include "bpf/text_file.hpp"

namespace penstock {
namespace {

std::optional<std::uint64_t> number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// The next word of a line with columns; "" at its end.
std::string_view word(std::string_view& line) {
  const std::size_t first = line.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  line.remove_prefix(first);
  const std::string_view found = line.substr(0, line.find_first_of(" \t"));
  line.remove_prefix(found.size());
  return found;
}

std::optional<std::uint64_t> kibibytes(std::string_view text) {
  const std::optional<std::uint64_t> kib = number(text);
  if (!kib || *kib > UINT64_MAX / 1024) return std::nullopt;
  return *kib * 1024;
}

constexpr std::string_view zram_prefix = "/dev/zram";

}  // namespace

std::vector<SwapArea> parse_swaps(std::string_view text) {
  std::vector<SwapArea> areas;
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const std::string_view name = word(line);
    word(line);  // partition or file
    const std::optional<std::uint64_t> bytes = kibibytes(word(line));
    const std::optional<std::uint64_t> used = kibibytes(word(line));
    // The heading has no numbers.
    if (!bytes || !used) continue;
    areas.push_back({std::string(name), name.starts_with(zram_prefix), *bytes, *used});
  }
  return areas;
}

std::optional<std::uint64_t> parse_zram_memory(std::string_view mm_stat) {
  mm_stat = mm_stat.substr(0, mm_stat.find('\n'));
  word(mm_stat);                 // Bytes stored,
  word(mm_stat);                 // compressed,
  return number(word(mm_stat));  // and what that takes in all.
}

std::optional<SwapSpace> read_swap_space(int root) {
  const Result<std::string> text = read_text(root, "proc/swaps");
  if (!text) return std::nullopt;
  SwapSpace space;
  for (const SwapArea& area : parse_swaps(*text)) {
    (area.zram ? space.zram_bytes : space.disk_bytes) += area.bytes;
    (area.zram ? space.zram_used_bytes : space.disk_used_bytes) += area.used_bytes;
    if (!area.zram) continue;
    const std::string_view device = std::string_view(area.name).substr(std::string_view("/dev/").size());
    const Result<std::string> stat = read_text(root, fmt::format("sys/block/{}/mm_stat", device).c_str());
    const std::optional<std::uint64_t> memory = stat ? parse_zram_memory(*stat) : std::nullopt;
    if (memory) space.zram_memory_bytes = space.zram_memory_bytes.value_or(0) + *memory;
  }
  return space;
}

// Older kernels don't say; a module that is not there, or off and empty, holds nothing.
std::optional<std::uint64_t> read_zswapped(int root) {
  const Result<std::string> meminfo = read_text(root, "proc/meminfo");
  const auto told = meminfo ? meminfo_bytes(*meminfo, "Zswapped") : std::nullopt;
  if (told) return told;
  const Result<std::string> enabled = read_text(root, "sys/module/zswap/parameters/enabled");
  if (!enabled)
    return enabled.error().code == Errc::not_found ? std::optional<std::uint64_t>(0) : std::nullopt;
  return enabled->starts_with('N') ? std::optional<std::uint64_t>(0) : std::nullopt;
}

SwappedParts part_swapped(std::uint64_t swapped, const std::optional<SwapSpace>& space,
                          std::optional<std::uint64_t> zswapped) {
  if (swapped == 0) return {.compressed = 0, .on_disk = 0};
  if (!space) return {};
  // A kind that is there and holds nothing parts nothing. Just after the first page nothing may be told of either.
  const bool any_used = space->zram_used_bytes + space->disk_used_bytes > 0;
  const bool on_zram = (any_used ? space->zram_used_bytes : space->zram_bytes) > 0;
  const bool on_disk = (any_used ? space->disk_used_bytes : space->disk_bytes) > 0;
  if (on_zram && !on_disk) return {.compressed = swapped, .on_disk = 0};
  if (on_zram || !on_disk || !zswapped) return {};
  const std::uint64_t held = std::min(swapped, *zswapped);
  return {.compressed = held, .on_disk = swapped - held};
}

}  // namespace penstock
