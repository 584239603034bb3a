// SPDX-License-Identifier: Apache-2.0
// The commands of `penstock`: one file and one line of the table in commands.cpp each.
#pragma once

#include <functional>
#include <span>

#include "service/cli/context.hpp"

namespace CLI {
class App;
}

namespace penstock {

using RunCommand = std::function<int(const Context&)>;

struct Command {
  const char* name;
  const char* summary;
  // Adds the command's own options to `app`; what it returns runs after they were parsed.
  RunCommand (*define)(CLI::App& app);
};

std::span<const Command> all_commands();

RunCommand define_status(CLI::App& app);
RunCommand define_top(CLI::App& app);
RunCommand define_load(CLI::App& app);
RunCommand define_evict(CLI::App& app);
RunCommand define_scrub(CLI::App& app);
RunCommand define_explain(CLI::App& app);
RunCommand define_doctor(CLI::App& app);
RunCommand define_inspect(CLI::App& app);
RunCommand define_make_checkpoint(CLI::App& app);
// For a command that is announced and not there yet: takes any arguments and answers `not_built`.
RunCommand define_not_built(CLI::App& app);

}  // namespace penstock
