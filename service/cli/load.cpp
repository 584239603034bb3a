// SPDX-License-Identifier: Apache-2.0
// penstock load FILE: makes a checkpoint resident.
#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>

#include <fmt/format.h>
#include <poll.h>
#include <CLI/CLI.hpp>

#include "dataplane/base/event_fd.hpp"
#include "dataplane/base/units.hpp"
#include "service/cli/commands.hpp"
#include "service/cli/json_values.hpp"
#include "service/cli/progress.hpp"
#include "service/cli/service_link.hpp"

namespace penstock {
namespace {

constexpr int progress_period_ms = 100;

// Shows how much of the checkpoint is resident while the load goes on, by a connection of its own.
class LoadProgress {
 public:
  LoadProgress(const Context& context, std::uint64_t bytes_total, std::uint64_t bytes_before)
      : context_(context), total_(bytes_total), before_(bytes_before) {
    if (::isatty(STDERR_FILENO) == 0) return;
    auto done = EventFd::create();
    if (!done) return;
    done_ = std::make_unique<EventFd>(std::move(*done));
    thread_ = std::thread([this] { watch(); });
  }
  LoadProgress(const LoadProgress&) = delete;
  LoadProgress& operator=(const LoadProgress&) = delete;
  ~LoadProgress() {
    if (!thread_.joinable()) return;
    done_->signal();
    thread_.join();
  }

 private:
  void watch() const {
    const auto link = ServiceLink::connect(context_);
    if (!link) return;
    Progress progress(total_);
    for (;;) {
      pollfd wait{.fd = done_->fd(), .events = POLLIN, .revents = 0};
      if (::poll(&wait, 1, progress_period_ms) != 0) return;
      const auto status = link->ask("status");
      if (!status) return;
      std::uint64_t resident = 0;
      for (const Json& device : list_of(*status, "devices"))
        resident += find_number(device, "resident_bytes").value_or(0);
      progress.show(resident > before_ ? std::min(resident - before_, total_) : 0);
    }
  }

  const Context& context_;
  const std::uint64_t total_, before_;
  std::unique_ptr<EventFd> done_;
  std::thread thread_;
};

int run_load(const Context& context, const std::string& path, const std::string& device) {
  const auto link = ServiceLink::connect(context);
  if (!link) return report_service_failure(context, link.error());
  const auto handle = link->open(path);
  if (!handle) return report_service_failure(context, handle.error());
  Json arguments{{"checkpoint", *handle}};
  if (!device.empty()) arguments["device"] = device;
  Outcome<Json> answer = fail(FailureKind::internal, "not asked");
  {
    std::uint64_t before = 0;
    if (const auto status = link->ask("status")) {
      for (const Json& one : list_of(*status, "devices"))
        before += find_number(one, "resident_bytes").value_or(0);
    }
    std::error_code unknown;
    const auto bytes = std::filesystem::file_size(path, unknown);
    const LoadProgress progress(context, unknown ? 0 : bytes, before);
    answer = link->ask("load", arguments);
  }
  if (!answer) return report_service_failure(context, answer.error());
  if (context.json) return context.finish(context.print_json(*answer));
  const double rate = answer->value("bytes_per_second", 0.0);
  std::string missing;
  if (const Json why = object_of(*answer, "incomplete"); !why.empty()) {
    missing =
        fmt::format("not all of it is resident: {} ({})\n", text_of(why, "message"), text_of(why, "kind"));
    if (const std::string hint = text_of(why, "hint"); !hint.empty())
      missing += fmt::format("  remedy: {}\n", hint);
  }
  return context.finish(context.print_text(fmt::format(
      "{}: {} resident of {}, {} read ({} direct, {} cached) in {:.2f} s, {}/s\n{}",
      text_of(*answer, "checkpoint"), format_bytes(find_number(*answer, "resident_bytes").value_or(0)),
      format_bytes(find_number(*answer, "bytes").value_or(0)),
      format_bytes(find_number(*answer, "read_bytes").value_or(0)),
      format_bytes(find_number(*answer, "direct_bytes").value_or(0)),
      format_bytes(find_number(*answer, "cached_bytes").value_or(0)), answer->value("seconds", 0.0),
      format_bytes(static_cast<std::uint64_t>(rate)), missing)));
}

}  // namespace

RunCommand define_load(CLI::App& app) {
  auto path = std::make_shared<std::string>();
  auto device = std::make_shared<std::string>();
  app.add_option("FILE", *path, "a checkpoint file")->required();
  app.add_option("--device", *device, "id of a device, as penstock status shows it")->type_name("ID");
  return [path, device](const Context& context) { return run_load(context, *path, *device); };
}

}  // namespace penstock
