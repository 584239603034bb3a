// SPDX-License-Identifier: Apache-2.0
#include "service/cli/program.hpp"

#include <algorithm>
#include <cstdlib>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "dataplane/base/version.hpp"
#include "service/cli/commands.hpp"

namespace penstock {
namespace {

constexpr const char* default_socket = "/run/penstock/penstock.sock";

constexpr const char* footer =
    "Exit status: 0 done, 1 what was asked for failed, 2 wrong usage, 3 service not reachable.\n"
    "With --json a failure is one object on standard output: {\"error\":{\"kind\",\"message\",\"hint\"}}.";

std::string socket_from_environment() {
  const char* const value = std::getenv("PENSTOCK_SOCKET");
  return value != nullptr && *value != '\0' ? value : default_socket;
}

void define_global_options(CLI::App& app, Context& context) {
  app.add_option("--socket", context.socket, "control socket of the service")
      ->type_name("PATH")
      ->default_str("$PENSTOCK_SOCKET, then /run/penstock/penstock.sock");
  app.add_flag("--json", context.json, "answer with one JSON object");
  const std::vector<std::pair<std::string, ColorMode>> modes = {
      {"auto", ColorMode::automatic}, {"always", ColorMode::on}, {"never", ColorMode::off}};
  app.add_option("--color", context.color, "auto, always or never")
      ->type_name("WHEN")
      ->transform(CLI::Transformer(modes).description(""))
      ->option_text("WHEN");
  app.set_version_flag("--version", fmt::format("penstock {}", project_version));
  app.footer(footer);
}

// Help and version end the parse with an exception, too; CLI11 knows which of them is a success.
int finish_parse(CLI::App& app, const CLI::ParseError& error, bool json) {
  if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success)) return app.exit(error);
  const std::vector<std::string> left = app.remaining();
  const bool is_unknown = app.get_subcommands().empty() && !left.empty() && !left.front().starts_with('-');
  Context context;
  context.json = json;
  (void)context.report({FailureKind::invalid_argument,
                        is_unknown ? "unknown command " + printable(left.front()) : std::string(error.what()),
                        "see penstock --help"});
  return exit_usage;
}

}  // namespace

int run_program(int count, const char* const* words) {
  Context context{.socket = socket_from_environment()};
  CLI::App app("Talks to penstockd, the service that owns model weights on this node.", "penstock");
  define_global_options(app, context);
  app.require_subcommand(1);
  // Global options may stand behind the command, too.
  app.fallthrough();
  std::vector<std::pair<CLI::App*, RunCommand>> defined;
  for (const Command& command : all_commands()) {
    CLI::App* const sub = app.add_subcommand(command.name, command.summary);
    sub->fallthrough();
    defined.emplace_back(sub, command.define(*sub));
  }
  const std::span<const char* const> all(words, static_cast<std::size_t>(count));
  const bool wants_json = std::ranges::find(all, std::string_view("--json")) != all.end();
  try {
    app.parse(count, words);
  } catch (const CLI::ParseError& error) {
    return finish_parse(app, error, wants_json);
  }
  for (const auto& [sub, run] : defined) {
    if (sub->parsed()) return run(context);
  }
  return exit_usage;
}

}  // namespace penstock
