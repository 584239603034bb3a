// SPDX-License-Identifier: Apache-2.0
#include "service/cli/client_text.hpp"

#include <array>

#include <fmt/format.h>

#include "dataplane/base/units.hpp"
#include "service/cli/json_values.hpp"

namespace penstock {
namespace {

constexpr std::array<const char*, 6> kinds = {"weights", "work", "carry", "results", "state", "other"};

// On all devices together.
std::string device_bytes(const Json& kind) {
  const Json devices = object_of(kind, "devices");
  if (devices.empty()) return "-";
  std::uint64_t sum = 0;
  for (const Json& bytes : devices) sum += bytes.is_number_unsigned() ? bytes.get<std::uint64_t>() : 0;
  return format_bytes(sum);
}

std::string kinds_text(const Json& client) {
  const std::string number = fmt::format("{}", find_number(client, "id").value_or(0));
  std::string text;
  const auto line = [&](std::string_view what, const std::string& device, const std::string& locked,
                        const std::string& anonymous, const std::string& cached, const std::string& disk) {
    text += fmt::format("{:<8} {:<11} {:>10} {:>10} {:>10} {:>10} {:>10}\n", number, what, device, locked,
                        anonymous, cached, disk);
  };
  const Json of_client = object_of(client, "kinds"), process = object_of(client, "process");
  for (const char* const name : kinds) {
    const Json kind = object_of(of_client, name);
    if (kind.empty()) continue;
    line(name, device_bytes(kind), bytes_of(kind, "locked_host_bytes"), bytes_of(kind, "anonymous_bytes"),
         bytes_of(kind, "page_cache_bytes"), bytes_of(kind, "disk_bytes"));
  }
  if (process.empty()) return text;
  line("(process)", "-", bytes_of(process, "locked_bytes"), bytes_of(process, "anonymous_bytes"),
       bytes_of(process, "page_cache_bytes"), "-");
  if (find_number(process, "swapped_bytes").value_or(0) > 0) {
    line("(swapped)", "-", "-",
         fmt::format("{} in all, {} compressed", bytes_of(process, "swapped_bytes"),
                     bytes_of(process, "compressed_bytes")),
         "", bytes_of(process, "on_disk_bytes"));
  }
  return text;
}

}  // namespace

std::string bytes_of(const Json& object, const char* key) {
  const auto value = find_number(object, key);
  return value ? format_bytes(*value) : "-";
}

std::string clients_text(const Json& clients, std::string_view strong, std::string_view plain) {
  if (clients.empty()) return "";
  std::string text = fmt::format("\n{}{:<8} {:>8} {:>10} {:>10} {:>10}  {:<7} name{}\n", strong, "client",
                                 "pid", "pinned", "private", "locked", "state", plain);
  std::string kinds_of_all;
  for (const Json& one : clients) {
    text += fmt::format("{:<8} {:>8} {:>10} {:>10} {:>10}  {:<7} {}\n", find_number(one, "id").value_or(0),
                        find_number(one, "pid").value_or(0), bytes_of(one, "pinned_bytes"),
                        bytes_of(one, "private_bytes"), bytes_of(one, "locked_host_bytes"),
                        text_of(one, "state"), printable(text_of(one, "name")));
    kinds_of_all += kinds_text(one);
  }
  if (kinds_of_all.empty()) return text;
  return text +
         fmt::format("\n{}{:<8} {:<11} {:>10} {:>10} {:>10} {:>10} {:>10}{}\n", strong, "client", "kind",
                     "device", "locked", "anonymous", "page cache", "disk", plain) +
         kinds_of_all;
}

}  // namespace penstock
