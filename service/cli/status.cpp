// SPDX-License-Identifier: Apache-2.0
// penstock status, penstock top: who holds what where.
#include <csignal>
#include <memory>
#include <string>

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include "dataplane/base/units.hpp"
#include "service/cli/client_text.hpp"
#include "service/cli/commands.hpp"
#include "service/cli/json_values.hpp"
#include "service/cli/service_link.hpp"

namespace penstock {
namespace {

std::string devices_text(const Json& status, std::string_view strong, std::string_view plain) {
  std::string text =
      fmt::format("{}{:<14} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10}  state{}\n", strong, "device",
                  "capacity", "budget", "resident", "pinned", "booked", "foreign", "stuck", plain);
  for (const Json& device : list_of(status, "devices")) {
    text +=
        fmt::format("{:<14} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10}  {}\n", text_of(device, "id"),
                    bytes_of(device, "capacity_bytes"), bytes_of(device, "budget_bytes"),
                    bytes_of(device, "resident_bytes"), bytes_of(device, "pinned_bytes"),
                    bytes_of(device, "booked_bytes"), bytes_of(device, "foreign_bytes"),
                    bytes_of(device, "stuck_bytes"), text_of(device, "state"));
  }
  return text;
}

std::string status_text(const Json& status, bool color) {
  const std::string_view strong = color ? "\x1b[1m" : "", plain = color ? "\x1b[0m" : "";
  std::string text = devices_text(status, strong, plain);
  for (const Json& gpu : list_of(status, "unshared")) {
    text += fmt::format("{:<14} {} of {} in copies of tables: its memory can't be shared\n",
                        text_of(gpu, "id"), bytes_of(gpu, "copies_bytes"), bytes_of(gpu, "total_bytes"));
  }
  if (const Json host = object_of(status, "host"); !host.empty()) {
    text += fmt::format("host memory    {} of {} locked\n", bytes_of(host, "locked_bytes"),
                        bytes_of(host, "locked_budget_bytes"));
  }
  const Json& checkpoints = list_of(status, "checkpoints");
  if (!checkpoints.empty()) {
    text += fmt::format("\n{}{:<14} {:>10} {:>10} {:>10} {:>8}  name{}\n", strong, "checkpoint", "bytes",
                        "resident", "page cache", "clients", plain);
  }
  for (const Json& one : checkpoints) {
    text += fmt::format("{:<14} {:>10} {:>10} {:>10} {:>8}  {}\n", text_of(one, "id"), bytes_of(one, "bytes"),
                        bytes_of(one, "resident_bytes"), bytes_of(one, "page_cache_bytes"),
                        find_number(one, "clients").value_or(0), printable(text_of(one, "name")));
  }
  text += clients_text(list_of(status, "clients"), strong, plain);
  const std::string metrics = text_of(object_of(status, "metrics"), "address");
  text += fmt::format("\nreader {}, metrics {}\n", text_of(object_of(status, "reader"), "backend"),
                      metrics.empty() ? "off" : "http://" + metrics + "/metrics");
  return text;
}

int run_status(const Context& context) {
  const auto link = ServiceLink::connect(context);
  if (!link) return report_service_failure(context, link.error());
  const auto status = link->ask("status");
  if (!status) return report_service_failure(context, status.error());
  return context.finish(context.json ? context.print_json(*status)
                                     : context.print_text(status_text(*status, context.has_color())));
}

volatile std::sig_atomic_t interrupted = 0;

// Redraws until a signal or the end of the service.
int run_top(const Context& context, bool once, double seconds) {
  const auto link = ServiceLink::connect(context);
  if (!link) return report_service_failure(context, link.error());
  struct sigaction action {};
  action.sa_handler = [](int) { interrupted = 1; };
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
  for (;;) {
    const auto status = link->ask("status");
    if (!status) return report_service_failure(context, status.error());
    const std::string clear = once || !::isatty(STDOUT_FILENO) ? "" : "\x1b[H\x1b[J";
    const bool printed = context.json ? context.print_json(*status)
                                      : context.print_text(clear + status_text(*status, context.has_color()));
    if (once || !printed) return context.finish(printed);
    ::poll(nullptr, 0, static_cast<int>(seconds * 1000));
    if (interrupted != 0) return exit_done;
  }
}

}  // namespace

RunCommand define_status(CLI::App&) { return run_status; }

RunCommand define_top(CLI::App& app) {
  auto once = std::make_shared<bool>(false);
  auto seconds = std::make_shared<double>(1.0);
  app.add_flag("--once", *once, "print one frame and end");
  app.add_option("--interval", *seconds, "seconds between frames")
      ->check(CLI::Range(0.1, 3600.0))
      ->default_str("1");
  return [once, seconds](const Context& context) { return run_top(context, *once, *seconds); };
}

}  // namespace penstock
