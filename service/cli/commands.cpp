// SPDX-License-Identifier: Apache-2.0
#include "service/cli/commands.hpp"

#include <CLI/CLI.hpp>

#include <fmt/format.h>

namespace penstock {
namespace {

constexpr Command commands[] = {
    {"status", "show devices, checkpoints and clients of the service", define_status},
    {"load", "make a checkpoint resident", define_load},
    {"evict", "take pages of a checkpoint back", define_evict},
    {"scrub", "check the resident bytes of a checkpoint now", define_scrub},
    {"inspect", "show what is in a checkpoint file; needs no service", define_inspect},
    {"doctor", "check what this machine offers", define_doctor},
    {"explain", "show the decisions of the service", define_explain},
    {"top", "watch the service", define_top},
    {"make-checkpoint", "write a checkpoint with the shapes of a known model; needs no service",
     define_make_checkpoint},
    {"simulate", "replay a trace against a policy", define_not_built},
};

}  // namespace

std::span<const Command> all_commands() { return commands; }

RunCommand define_not_built(CLI::App& app) {
  app.allow_extras();
  return [name = app.get_name()](const Context& context) {
    return context.report({FailureKind::not_built, fmt::format("`penstock {}` is not built yet", name),
                           "a later version has it"});
  };
}

}  // namespace penstock
