// SPDX-License-Identifier: Apache-2.0
// penstock evict, penstock scrub: what is done to the resident pages of a checkpoint, or of all.
#include <memory>
#include <string>

#include <fmt/format.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include "dataplane/base/units.hpp"
#include "service/cli/commands.hpp"
#include "service/cli/json_values.hpp"
#include "service/cli/service_link.hpp"

namespace penstock {
namespace {

struct Wanted {
  std::string what;
  bool all = false;
  bool forget = false;
};

bool is_checkpoint_id(const std::string& word) {
  return word.size() == 12 && word.find_first_not_of("0123456789abcdef") == std::string::npos;
}

std::shared_ptr<Wanted> add_options(CLI::App& app) {
  auto wanted = std::make_shared<Wanted>();
  app.add_option("ID|FILE", wanted->what, "id of a checkpoint, or its file");
  app.add_flag("--all", wanted->all, "every checkpoint; root or the admin group");
  return wanted;
}

// The exit code; `as_text` turns the answer into a line.
template <class AsText>
int ask_of(const Context& context, const char* command, const Wanted& wanted, const AsText& as_text) {
  if (wanted.all != wanted.what.empty()) {
    (void)context.report({FailureKind::invalid_argument,
                          fmt::format("{} wants one of: a checkpoint's id, a file, --all", command),
                          "penstock status lists the ids"});
    return exit_usage;
  }
  const auto link = ServiceLink::connect(context);
  if (!link) return report_service_failure(context, link.error());
  Json arguments{{"all", wanted.all}};
  // A file of that very name goes before an id: it was typed, and exists.
  if (wanted.forget) arguments["forget"] = true;
  if (!wanted.all && is_checkpoint_id(wanted.what) && ::access(wanted.what.c_str(), F_OK) != 0) {
    arguments["id"] = wanted.what;
  } else if (!wanted.all) {
    const auto handle = link->open(wanted.what);
    if (!handle) return report_service_failure(context, handle.error());
    arguments["checkpoint"] = *handle;
  }
  const auto answer = link->ask(command, arguments);
  if (!answer) return report_service_failure(context, answer.error());
  if (context.json) return context.finish(context.print_json(*answer));
  return context.finish(context.print_text(as_text(*answer)));
}

std::string evicted_text(const Json& answer) {
  std::string text = fmt::format("{} evicted, {} kept: in use\n",
                                 format_bytes(find_number(answer, "evicted_bytes").value_or(0)),
                                 format_bytes(find_number(answer, "kept_pinned_bytes").value_or(0)));
  if (const auto forgotten = find_number(answer, "forgotten_checkpoints")) {
    text += fmt::format("{} checkpoints forgotten, {} kept: open in clients\n", *forgotten,
                        find_number(answer, "kept_checkpoints").value_or(0));
  }
  return text;
}

std::string scrubbed_text(const Json& answer) {
  return fmt::format("{} checked, {} corrupt pages\n",
                     format_bytes(find_number(answer, "scrubbed_bytes").value_or(0)),
                     find_number(answer, "corrupt_pages").value_or(0));
}

}  // namespace

RunCommand define_evict(CLI::App& app) {
  const std::shared_ptr<Wanted> wanted = add_options(app);
  app.add_flag("--forget", wanted->forget,
               "close the files that no client has open as well, so that their disk can be unmounted");
  return [wanted](const Context& context) { return ask_of(context, "evict", *wanted, evicted_text); };
}

RunCommand define_scrub(CLI::App& app) {
  app.footer(
      "A page on a GPU is compared with its checksum from the end of its load. A page in host memory, which "
      "nobody but\n"
      "the service can write to, with its first checksum, which is taken some time after the load.");
  return [wanted = add_options(app)](const Context& context) {
    return ask_of(context, "scrub", *wanted, scrubbed_text);
  };
}

}  // namespace penstock
