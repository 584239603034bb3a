// SPDX-License-Identifier: Apache-2.0
#include "bpf/cgroup_text.hpp"

#include <algorithm>
#include <charconv>

namespace penstock {
namespace {

// Nobody limits memory to that: it is the v1 sentinel at any page size.
constexpr std::uint64_t no_limit_from = std::uint64_t{1} << 62;

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\n");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\n") - first + 1);
}

std::optional<std::uint64_t> number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// Cuts what stands before `separator` off the front of `rest`; all of it when there is none.
std::string_view cut(std::string_view& rest, char separator) {
  const std::size_t end = rest.find(separator);
  const std::string_view part = rest.substr(0, end);
  rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  return part;
}

bool lists(std::string_view commas, std::string_view word) {
  while (!commas.empty()) {
    if (cut(commas, ',') == word) return true;
  }
  return false;
}

// mountinfo writes blank, tab, newline and backslash as \040 and so on.
std::string unescaped(std::string_view text) {
  std::string plain;
  const auto is_octal = [](char c) { return c >= '0' && c <= '7'; };
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 3 < text.size() && std::ranges::all_of(text.substr(i + 1, 3), is_octal)) {
      plain += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0'));
      i += 3;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

void add_mount(std::string_view line, CgroupMounts& mounts) {
  // id parent device ROOT WHERE options [optional fields] - TYPE source SUPER-OPTIONS
  const std::size_t dash = line.find(" - ");
  if (dash == std::string_view::npos) return;
  std::string_view before = line.substr(0, dash);
  std::string_view after = line.substr(dash + 3);
  for (int skipped = 0; skipped < 3; ++skipped) cut(before, ' ');
  const std::string_view root = cut(before, ' ');
  const std::string_view where = cut(before, ' ');
  if (!root.starts_with('/') || !where.starts_with('/')) return;
  const std::string_view type = cut(after, ' ');
  cut(after, ' ');
  if (type == "cgroup2") mounts.v2.push_back({unescaped(root), unescaped(where)});
  if (type == "cgroup" && lists(after, "memory"))
    mounts.v1_memory.push_back({unescaped(root), unescaped(where)});
}

}  // namespace

Result<std::optional<std::uint64_t>> parse_limit(std::string_view text) {
  const std::string_view value = trimmed(text);
  if (value == "max") return std::optional<std::uint64_t>();
  const std::optional<std::uint64_t> bytes = number(value);
  if (!bytes) return Error{Errc::corrupt, 0, "parse a memory limit"};
  if (*bytes >= no_limit_from) return std::optional<std::uint64_t>();
  return bytes;
}

Result<std::uint64_t> parse_bytes_used(std::string_view text) {
  const std::optional<std::uint64_t> bytes = number(trimmed(text));
  if (!bytes) return Error{Errc::corrupt, 0, "parse a memory usage"};
  return *bytes;
}

std::optional<std::uint64_t> stat_value(std::string_view stat, std::string_view key) {
  while (!stat.empty()) {
    std::string_view line = cut(stat, '\n');
    if (cut(line, ' ') == key) return number(trimmed(line));
  }
  return std::nullopt;
}

std::optional<std::uint64_t> meminfo_bytes(std::string_view meminfo, std::string_view name) {
  while (!meminfo.empty()) {
    std::string_view line = cut(meminfo, '\n');
    if (cut(line, ':') != name) continue;
    line = trimmed(line);
    if (!line.ends_with(" kB")) return std::nullopt;
    const std::optional<std::uint64_t> kib = number(trimmed(line.substr(0, line.size() - 3)));
    if (!kib || *kib > UINT64_MAX / 1024) return std::nullopt;
    return *kib * 1024;
  }
  return std::nullopt;
}

CgroupPaths parse_cgroup_paths(std::string_view text) {
  CgroupPaths paths;
  while (!text.empty()) {
    // hierarchy:controllers:path, and the path may hold colons.
    std::string_view line = cut(text, '\n');
    const std::string_view hierarchy = cut(line, ':');
    const std::string_view controllers = cut(line, ':');
    if (!line.starts_with('/')) continue;
    if (lists(controllers, "memory")) paths.v1_memory = std::string(line);
    if (hierarchy == "0" && controllers.empty()) paths.v2 = std::string(line);
  }
  return paths;
}

CgroupMounts parse_cgroup_mounts(std::string_view mountinfo) {
  CgroupMounts mounts;
  while (!mountinfo.empty()) add_mount(cut(mountinfo, '\n'), mounts);
  return mounts;
}

}  // namespace penstock
