// SPDX-License-Identifier: Apache-2.0
#include "dataplane/device/usage/kernel_text.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>

#include <fcntl.h>
#include <unistd.h>

#include "dataplane/base/unique_fd.hpp"
#include "dataplane/device/usage/host_memory.hpp"

namespace penstock {
namespace {

constexpr std::size_t text_bytes_max = 64 * 1024;

std::string_view trimmed(std::string_view text) {
  const auto is_space = [](char c) { return c == ' ' || c == '\t' || c == '\n'; };
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

}  // namespace

Result<std::string> read_kernel_text(const std::string& path) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!file) return Error{errno == ENOENT ? Errc::not_found : Errc::io, errno, "open"};
  std::string text(text_bytes_max, '\0');
  std::size_t size = 0;
  while (size < text.size()) {
    const ssize_t got = ::read(file.get(), text.data() + size, text.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Error{Errc::io, errno, "read"};
    if (got == 0) break;
    size += static_cast<std::size_t>(got);
  }
  text.resize(size);
  return text;
}

Result<std::uint64_t> read_kernel_number(const std::string& path) {
  const std::string text = TRY(read_kernel_text(path));
  const std::string_view digits = trimmed(text);
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc() || end != digits.data() + digits.size())
    return Error{Errc::corrupt, 0, "kernel number"};
  return number;
}

std::optional<std::uint64_t> parse_kernel_bytes(std::string_view text) {
  text = trimmed(text);
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  const std::string_view unit = trimmed(text);
  int shift = -1;
  if (unit.empty()) shift = 0;
  if (unit == "KiB" || unit == "kB") shift = 10;
  if (unit == "MiB") shift = 20;
  if (unit == "GiB") shift = 30;
  if (shift < 0 || number > UINT64_MAX >> shift) return std::nullopt;
  return number << shift;
}

std::optional<std::string_view> value_after(std::string_view text, std::string_view key) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    if (line.starts_with(key)) return trimmed(line.substr(key.size()));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return std::nullopt;
}

Result<HostMemory> read_host_memory(const std::string& proc) {
  const std::string text = TRY(read_kernel_text(proc + "/meminfo"));
  const auto bytes_after = [&text](std::string_view key) -> std::optional<std::uint64_t> {
    const auto value = value_after(text, key);
    return value ? parse_kernel_bytes(*value) : std::nullopt;
  };
  const auto total = bytes_after("MemTotal:"), available = bytes_after("MemAvailable:");
  if (!total || !available) return Error{Errc::corrupt, 0, "meminfo"};
  return HostMemory{.total_bytes = *total, .available_bytes = std::min(*available, *total)};
}

}  // namespace penstock
