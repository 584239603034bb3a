// SPDX-License-Identifier: Apache-2.0
#include "service/control/load_shortage.hpp"

#include <string>

#include <fmt/format.h>

#include "dataplane/base/units.hpp"

namespace penstock {
namespace {

constexpr const char* raise_descriptors = "raise LimitNOFILE= of the service's unit";

// What leaves less than the capacity for pages.
std::string deductions(const LedgerFigures& figures) {
  std::string text;
  const auto add = [&](std::uint64_t bytes, const char* what) {
    if (bytes > 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", format_bytes(bytes), what);
  };
  add(figures.booked_bytes(), "are booked by clients");
  add(figures.counted_foreign_bytes, "are counted for other programs");
  add(figures.headroom_bytes, "are headroom");
  if (figures.allowed_bytes < figures.capacity_bytes)
    add(figures.capacity_bytes - figures.allowed_bytes, "are given up to memory pressure");
  return text;
}

Failure budget_shortage(const DeviceLink& device, const AdmissionDesk& desk, FailureKind reason) {
  const LedgerFigures figures = desk.figures();
  const DeviceLink::Description& description = device.description();
  const std::uint64_t budget = figures.pager_budget_bytes;
  const std::uint64_t page_bytes = description.limits.frame_bytes;
  const bool is_whole = desk.frames_max() > figures.capacity_bytes / page_bytes;
  if (!is_whole && budget / page_bytes >= desk.frames_max()) {
    return {FailureKind::fd_limit,
            fmt::format("the service's descriptors allow {} pages of {} on {}", desk.frames_max(),
                        format_bytes(page_bytes), description.id),
            raise_descriptors};
  }
  std::string room = fmt::format("{} has room for {} of pages", description.id, format_bytes(budget));
  if (budget < figures.capacity_bytes) {
    room += fmt::format(" of a capacity of {}", format_bytes(figures.capacity_bytes));
    if (const std::string less = deductions(figures); !less.empty()) room += ": " + less;
  }
  if (reason == FailureKind::never_fits && figures.allowed_bytes < figures.capacity_bytes) {
    // What the pager takes for for ever passes with the pressure.
    return {
        FailureKind::headroom, room,
        "end what else takes the memory, or raise the limit of the service's cgroup; `penstock status` shows "
        "the pressure, and pages may use more again soon after it"};
  }
  if (reason == FailureKind::never_fits) {
    return {reason, room,
            fmt::format("raise capacity of [device.{}], end what else uses the memory, or fault parts of the "
                        "checkpoint as they are used",
                        description.kind)};
  }
  return {reason,
          fmt::format("{}; what is resident is pinned, or worth more ({} are pinned)", room,
                      format_bytes(device.stats().pinned_bytes.load())),
          "`penstock status` shows who holds what; `penstock evict` takes back what nobody uses"};
}

}  // namespace

Failure load_shortage(const ServiceState& service, std::size_t position, FailureKind reason) {
  const DeviceLink& device = *service.devices[position];
  const std::string& id = device.description().id;
  switch (reason) {
    case FailureKind::fd_limit:
      return {reason, fmt::format("the service is out of descriptors for pages of {}", id),
              raise_descriptors};
    case FailureKind::headroom:
      return {
          reason, fmt::format("the memory behind {} has no headroom left for more pages", id),
          "end what else uses it, or raise the limit of the service's cgroup; `penstock doctor` shows it"};
    case FailureKind::exhausted:
      return {reason, fmt::format("{} has no memory for more pages, though its budget has", id),
              "`penstock status` shows what others use of it"};
    case FailureKind::never_fits:
    case FailureKind::pinned: return budget_shortage(device, *service.admissions[position], reason);
    default: break;
  }
  // It was there, and left again before this was asked.
  return {FailureKind::pinned, fmt::format("pages went to others on {} while they were loaded", id),
          "`penstock explain` says what was evicted, and why"};
}

}  // namespace penstock
