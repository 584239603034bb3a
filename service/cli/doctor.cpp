// SPDX-License-Identifier: Apache-2.0
// penstock doctor: what this machine offers to the service, and what to do about what is missing. With and without a
// running service; what only the service knows is asked from it.
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include "bpf/cgroup_headroom.hpp"
#include "dataplane/base/resource_limits.hpp"
#include "dataplane/base/units.hpp"
#include "dataplane/io/open_reader.hpp"
#include "service/cli/commands.hpp"
#include "service/cli/doctor.hpp"
#include "service/cli/json_values.hpp"
#include "service/cli/service_link.hpp"

namespace penstock {
namespace {

Check check_kernel() {
  utsname names{};
  ::uname(&names);
  return {.name = "kernel", .detail = fmt::format("{} {}", names.sysname, names.release), .remedy = ""};
}

Check check_reader(Json& report) {
  Check check{.name = "reader", .detail = "", .remedy = ""};
  const auto ring = PinnedRing::make({});
  if (!ring) {
    return {
        .name = "reader", .state = "missing", .detail = ring.error().message, .remedy = ring.error().hint};
  }
  const auto opened = open_reader({}, ring->get());
  if (!opened) {
    return {.name = "reader",
            .state = "missing",
            .detail = opened.error().message,
            .remedy = opened.error().hint};
  }
  const ReaderReport& reader = opened->report;
  report = {{"backend", reader.backend},       {"reason", reader.reason},
            {"registered", reader.registered}, {"ring_bytes", reader.ring_bytes},
            {"huge_bytes", reader.huge_bytes}, {"locked", reader.locked}};
  check.detail = reader.backend + (reader.reason.empty() ? "" : ": " + reader.reason);
  if (reader.backend == "pread") {
    check.state = "degraded";
    check.remedy =
        "allow io_uring: sysctl kernel.io_uring_disabled=0, and syscalls 425 to 427 in the sandbox";
  } else if (!reader.registered || !reader.locked) {
    check.state = "degraded";
    check.remedy = "raise the limit of locked memory: LimitMEMLOCK= of the unit";
  }
  return check;
}

Check check_locked_memory() {
  if (may_lock_any_memory())
    return {.name = "locked memory", .detail = "no limit: CAP_IPC_LOCK", .remedy = ""};
  const auto limit = locked_memory_limit();
  if (limit && limit->soft >= 64 * mib) {
    return {.name = "locked memory", .detail = format_bytes(limit->soft), .remedy = ""};
  }
  return {.name = "locked memory",
          .state = "degraded",
          .detail = fmt::format("limit {}", limit ? format_bytes(limit->soft) : "unknown"),
          .remedy = "LimitMEMLOCK=infinity in the unit, or CAP_IPC_LOCK"};
}

Check check_descriptors() {
  const auto limit = open_files_limit();
  const std::uint64_t hard = limit ? limit->hard : 0;
  if (hard >= 65536) return {.name = "open files", .detail = fmt::format("up to {}", hard), .remedy = ""};
  return {.name = "open files",
          .state = "degraded",
          .detail = fmt::format("up to {}: each resident page of a device needs one", hard),
          .remedy = "LimitNOFILE=524288 in the unit"};
}

Check check_cgroup(Json& report) {
  const auto headroom = CgroupHeadroom::open();
  if (!headroom) {
    return {.name = "cgroup",
            .state = "missing",
            .detail = headroom.error().message,
            .remedy = headroom.error().hint};
  }
  const HeadroomReport now = (*headroom)->report();
  report = {{"path", now.path},
            {"hybrid", now.hybrid},
            {"limit_bytes", (*headroom)->limit_bytes()},
            {"headroom_bytes", (*headroom)->headroom_bytes()},
            {"machine_bytes", now.machine_bytes},
            {"available_bytes", now.available_bytes}};
  Check check{.name = "cgroup",
              .detail = fmt::format("limit {}, headroom {}", format_bytes((*headroom)->limit_bytes()),
                                    format_bytes((*headroom)->headroom_bytes())),
              .remedy = ""};
  for (const std::string& warning : (*headroom)->warnings()) {
    check.state = "degraded";
    check.detail += "; " + warning;
  }
  return check;
}

Check check_btf() {
  if (::access("/sys/kernel/btf/vmlinux", R_OK) == 0)
    return {.name = "kernel BTF", .detail = "found", .remedy = ""};
  return {.name = "kernel BTF",
          .state = "missing",
          .detail = "/sys/kernel/btf/vmlinux can't be read: page-cache probes can't be loaded",
          .remedy = "a kernel with CONFIG_DEBUG_INFO_BTF"};
}

Check check_service(const Context& context, Json& service) {
  const auto link = ServiceLink::connect(context);
  if (!link) {
    return {
        .name = "service", .state = "missing", .detail = link.error().message, .remedy = link.error().hint};
  }
  const auto answer = link->ask("doctor");
  if (!answer) {
    return {.name = "service",
            .state = "degraded",
            .detail = answer.error().message,
            .remedy = answer.error().hint};
  }
  service = *answer;
  Check check{.name = "service",
              .detail = fmt::format("answers on {}, reader {}", context.socket,
                                    text_of(object_of(*answer, "reader"), "backend")),
              .remedy = ""};
  for (const Json& device : list_of(*answer, "devices")) {
    const std::string state = text_of(device, "state");
    if (state.empty() || state == "ready") continue;
    check.state = "degraded";
    check.detail += fmt::format("; {} is {}", text_of(device, "id"), state);
    check.remedy = "penstock explain says why; the service tries the device again by itself";
  }
  return check;
}

// Whether pressure can slow the service down while it answers it. Only a service that runs can say.
std::optional<Check> check_protection(const Json& service) {
  const Json own = object_of(service, "protection");
  if (own.empty()) return std::nullopt;
  Check check{.name = "protection",
              .detail = fmt::format(
                  "{} of code, data, stacks and heaps stay in memory once touched, OOM score {}",
                  format_bytes(find_number(own, "locked_bytes").value_or(0)), own.value("oom_score", 0)),
              .remedy = ""};
  if (const std::string why = text_of(own, "why"); !why.empty()) {
    check.state = "degraded";
    check.detail += "; " + why;
    check.remedy = "CAP_IPC_LOCK: AmbientCapabilities= of the unit";
  }
  return check;
}

std::string as_text(const std::vector<Check>& checks, bool color) {
  std::string text;
  for (const Check& check : checks) {
    const std::string_view state = check.state;
    const char* paint = !color                ? ""
                        : state == "ok"       ? "\x1b[32m"
                        : state == "degraded" ? "\x1b[33m"
                                              : "\x1b[31m";
    text +=
        fmt::format("{}{:<9}{} {:<14} {}\n", paint, state, color ? "\x1b[0m" : "", check.name, check.detail);
    if (!check.remedy.empty() && state != "ok") text += fmt::format("{:25}remedy: {}\n", "", check.remedy);
  }
  return text;
}

int run_doctor(const Context& context) {
  Json service = Json::object(), reader = Json::object(), cgroup = Json::object(), probe_list = Json::array(),
       device_code = Json::array();
  std::vector<Check> checks;
  checks.push_back(check_service(context, service));
  checks.push_back(check_kernel());
  checks.push_back(check_reader(reader));
  checks.push_back(check_locked_memory());
  if (auto protection = check_protection(service)) checks.push_back(*std::move(protection));
  checks.push_back(check_descriptors());
  checks.push_back(check_cgroup(cgroup));
  checks.push_back(check_btf());
  checks.push_back(check_probes(service, probe_list));
  checks.push_back(check_device_code(device_code));
  Json devices = list_of(service, "devices"), drivers = Json::array(), gpus = Json::array();
  for (Check& check : check_service_usage(devices)) checks.push_back(std::move(check));
  for (Check& check : check_gpus(drivers, gpus, devices.empty())) checks.push_back(std::move(check));
  if (!context.json) return context.finish(context.print_text(as_text(checks, context.has_color())));
  Json list = Json::array();
  for (const Check& check : checks) {
    list.push_back(
        {{"name", check.name}, {"state", check.state}, {"detail", check.detail}, {"remedy", check.remedy}});
  }
  return context.finish(context.print_json({{"checks", std::move(list)},
                                            {"devices", std::move(devices)},
                                            {"drivers", std::move(drivers)},
                                            {"device_code", std::move(device_code)},
                                            {"gpus", std::move(gpus)},
                                            {"probes", std::move(probe_list)},
                                            {"reader", std::move(reader)},
                                            {"cgroup", std::move(cgroup)}}));
}

}  // namespace

RunCommand define_doctor(CLI::App&) { return run_doctor; }

}  // namespace penstock
