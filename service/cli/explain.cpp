// SPDX-License-Identifier: Apache-2.0
// penstock explain [ID] [--since T]: what was decided, from which facts.
#include <chrono>
#include <ctime>
#include <memory>
#include <optional>
#include <string>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "dataplane/base/units.hpp"
#include "service/cli/commands.hpp"
#include "service/cli/json_values.hpp"
#include "service/cli/service_link.hpp"

namespace penstock {
namespace {

// "10min", "2s": so long ago. "2026-11-29T16:36:20Z" or "@1764434180": then. Nanoseconds since the epoch.
std::optional<std::uint64_t> parse_time(const std::string& text) {
  const auto now = static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                                  std::chrono::system_clock::now().time_since_epoch())
                                                  .count());
  if (text.starts_with('@')) {
    char* end = nullptr;
    const unsigned long long seconds = std::strtoull(text.c_str() + 1, &end, 10);
    if (text.size() > 1 && *end == '\0') return seconds * 1'000'000'000;
    return std::nullopt;
  }
  std::tm utc{};
  if (const char* rest = ::strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &utc); rest != nullptr) {
    const std::string_view zone(rest);
    if (!zone.empty() && zone != "Z" && !zone.starts_with('.')) return std::nullopt;
    return static_cast<std::uint64_t>(::timegm(&utc)) * 1'000'000'000;
  }
  const auto ago = parse_duration(text);
  if (!ago) return std::nullopt;
  return *ago < now ? now - *ago : 0;
}

int run_explain(const Context& context, const std::string& id, const std::string& since) {
  Json arguments = Json::object();
  if (!id.empty()) arguments["id"] = id;
  if (!since.empty()) {
    const auto time = parse_time(since);
    if (!time) {
      (void)context.report(
          {FailureKind::invalid_argument, "--since: " + printable(since) + " is no time",
           "a span such as 10min, a UTC time such as 2026-11-29T16:36:20Z, or @ and seconds since 1970"});
      return exit_usage;
    }
    arguments["since_ns"] = *time;
  }
  const auto link = ServiceLink::connect(context);
  if (!link) return report_service_failure(context, link.error());
  const auto answer = link->ask("explain", arguments);
  if (!answer) return report_service_failure(context, answer.error());
  if (context.json) return context.finish(context.print_json(*answer));
  std::string text;
  for (const Json& decision : list_of(*answer, "decisions")) {
    text +=
        fmt::format("{} {:<9} {:<13} {:>10} {}", text_of(decision, "time"), text_of(decision, "kind"),
                    printable(text_of(decision, "subject")),
                    format_bytes(find_number(decision, "bytes").value_or(0)), text_of(decision, "reason"));
    if (const auto repeated = find_number(decision, "repeated"); repeated.value_or(1) > 1) {
      text += fmt::format(" ({} times)", *repeated);
    }
    const Json inputs = object_of(decision, "inputs");
    for (auto input = inputs.begin(); input != inputs.end(); ++input)
      text += fmt::format(" {}={}", input.key(), input->dump());
    text += '\n';
  }
  if (text.empty()) text = "nothing was decided\n";
  return context.finish(context.print_text(text));
}

}  // namespace

RunCommand define_explain(CLI::App& app) {
  auto id = std::make_shared<std::string>();
  auto since = std::make_shared<std::string>();
  app.add_option("ID", *id, "of a checkpoint, or \"client N\"");
  app.add_option("--since", *since, "10min, 2026-11-29T16:36:20Z or @SECONDS")->type_name("T");
  return [id, since](const Context& context) { return run_explain(context, *id, *since); };
}

}  // namespace penstock
