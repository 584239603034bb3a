// SPDX-License-Identifier: Apache-2.0
#include "bpf/process_memory.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>

#include <fmt/format.h>
#include <poll.h>

#include "bpf/text_file.hpp"

namespace penstock {
namespace {

// The number of a line such as "Anonymous:      112 kB"; nothing when there is none.
std::optional<std::uint64_t> bytes_of(std::string_view text, std::string_view name) {
  std::size_t line = 0;
  while (line < text.size()) {
    std::string_view rest = text.substr(line, text.find('\n', line) - line);
    line += rest.size() + 1;
    if (!rest.starts_with(name) || rest.substr(name.size(), 1) != ":") continue;
    rest.remove_prefix(name.size() + 1);
    rest.remove_prefix(std::min(rest.find_first_not_of(" \t"), rest.size()));
    std::uint64_t kib = 0;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), kib);
    if (error != std::errc{} || rest.substr(static_cast<std::size_t>(end - rest.data())) != " kB")
      return std::nullopt;
    return kib > UINT64_MAX / 1024 ? std::nullopt : std::optional(kib * 1024);
  }
  return std::nullopt;
}

}  // namespace

ProcessMemory memory_of_rollup(std::string_view text) {
  ProcessMemory memory;
  memory.anonymous = bytes_of(text, "Anonymous");
  memory.page_cache = bytes_of(text, "Pss_File");
  memory.shared_memory = bytes_of(text, "Pss_Shmem");
  memory.locked = bytes_of(text, "Locked");
  memory.swapped = bytes_of(text, "Swap");
  return memory;
}

ProcessMemory memory_of_status(std::string_view text) {
  ProcessMemory memory;
  memory.anonymous = bytes_of(text, "RssAnon");
  memory.locked = bytes_of(text, "VmLck");
  memory.swapped = bytes_of(text, "VmSwap");
  return memory;
}

void part_swapped(ProcessMemory& memory, const std::optional<SwapSpace>& space,
                  std::optional<std::uint64_t> zswapped) {
  if (!memory.swapped) return;
  // How much of it is this process's is not known, unless that is nothing.
  if (zswapped != 0u) zswapped.reset();
  const SwappedParts parts = part_swapped(*memory.swapped, space, zswapped);
  memory.compressed = parts.compressed;
  memory.on_disk = parts.on_disk;
}

Result<ProcessMemory> read_process_memory(int root, const ProcessRef& process) {
  const auto read_of = [&](const char* file) {
    return read_text(root, fmt::format("proc/{}/{}", process.pid, file).c_str());
  };
  // Tells what a walk would cost, without one.
  const Result<std::string> status = read_of("status");
  const auto in_status = [&](const char* name) { return bytes_of(*status, name).value_or(0); };
  const bool walk = !status || in_status("VmRSS") + in_status("VmSwap") <= walked_bytes_max;
  Result<std::string> text = walk ? read_of("smaps_rollup") : Error{Errc::exhausted, 0, "walk page tables"};
  // Another user's is refused without a privilege; a process without memory any more has an empty one.
  const bool rolled_up = text && !text->empty();
  if (!rolled_up) text = TRY(status);
  // Had it ended before the reading, the number might be another's by now.
  pollfd ended{.fd = process.pidfd, .events = POLLIN, .revents = 0};
  if (::poll(&ended, 1, 0) != 0) return Error{Errc::not_found, ESRCH, "read a process's memory"};
  ProcessMemory memory = rolled_up ? memory_of_rollup(*text) : memory_of_status(*text);
  if (memory.swapped == 0u)
    part_swapped(memory, std::nullopt, std::nullopt);
  else
    part_swapped(memory, read_swap_space(root), read_zswapped(root));
  return memory;
}

}  // namespace penstock
