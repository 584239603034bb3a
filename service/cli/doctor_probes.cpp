// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <fcntl.h>
#include <fmt/format.h>

#include "bpf/kernel_probes.hpp"
#include "bpf/remedy.hpp"
#include "service/cli/doctor.hpp"

namespace penstock {
namespace {

// What this program may do, where no service says what it can.
Json ask_here() {
  const UniqueFd root(::open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const auto opened = KernelProbes::open();
  const std::vector<ProbeReport> reports = opened->report();
  Json list = Json::array();
  for (const ProbeReport& probe : reports) {
    list.push_back(
        {{"name", probe.name}, {"attached", probe.attached}, {"how", probe.how}, {"why", probe.why}});
  }
  return {{"probes", std::move(list)},
          {"probe_level", probe_level_name(opened->level())},
          {"probe_remedy",
           probe_remedy(root ? read_kernel_facts(root.get()) : KernelFacts{}, opened->level(), reports)}};
}

}  // namespace

Check check_probes(const Json& service, Json& report) {
  const bool from_service = !list_of(service, "probes").empty();
  const Json answer = from_service ? service : ask_here();
  report = list_of(answer, "probes");
  const auto is_attached = [](const Json& probe) {
    const auto found = probe.find("attached");
    return found != probe.end() && found->is_boolean() && found->get<bool>();
  };
  const auto attached = std::ranges::count_if(report, is_attached);
  const std::string level = text_of(answer, "probe_level");
  Check check{.name = "probes",
              .detail = fmt::format("level {}{}, {} of {} attached", level,
                                    from_service ? "" : " for this program", attached, report.size()),
              .remedy = text_of(answer, "probe_remedy")};
  if (level == "none") check.state = "missing";
  // The service says what would let the page cache be traced only while it isn't.
  if (level != "none" && !check.remedy.empty()) check.state = "degraded";
  for (const Json& probe : report) {
    if (is_attached(probe)) continue;
    check.detail += fmt::format("; {}: {}", text_of(probe, "name"), text_of(probe, "why"));
    // What keeps all of them away is one cause.
    if (attached == 0) break;
  }
  return check;
}

}  // namespace penstock
