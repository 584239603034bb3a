// SPDX-License-Identifier: Apache-2.0
#include "service/cli/context.hpp"

#include <cstdio>
#include <cstdlib>

#include <fmt/format.h>
#include <unistd.h>

#include "dataplane/base/quote.hpp"

namespace penstock {
namespace {

bool is_set(const char* variable) {
  const char* const value = std::getenv(variable);
  return value != nullptr && *value != '\0';
}

int exit_code(FailureKind kind) { return kind == FailureKind::unreachable ? exit_unreachable : exit_failed; }

}  // namespace

bool Context::has_color() const {
  if (color != ColorMode::automatic) return color == ColorMode::on;
  const char* const terminal = std::getenv("TERM");
  return ::isatty(STDOUT_FILENO) == 1 && !is_set("NO_COLOR") &&
         !(terminal != nullptr && std::string_view(terminal) == "dumb");
}

bool Context::print_text(std::string_view text) const {
  return std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
}

bool Context::print_json(const Json& value) const {
  // Names come from files; what is no UTF-8 in a path must not end the program.
  return print_text(value.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
}

int Context::report(const Failure& failure) const {
  if (json) {
    const Json error = {
        {"error",
         {{"kind", failure_kind_name(failure.kind)}, {"message", failure.message}, {"hint", failure.hint}}}};
    (void)print_json(error);
    return exit_code(failure.kind);
  }
  fmt::print(stderr, "penstock: {}\n", failure.message);
  if (!failure.hint.empty()) fmt::print(stderr, "  {}\n", failure.hint);
  return exit_code(failure.kind);
}

int Context::finish(bool printed) const {
  if (printed) return exit_done;
  fmt::print(stderr, "penstock: standard output can't be written\n");
  return exit_failed;
}

std::string printable(std::string_view name) {
  std::string safe = quote(name, name.size());
  const bool unchanged = safe.size() == name.size() + 2 && !name.empty();
  return unchanged ? std::string(name) : safe;
}

}  // namespace penstock
