// SPDX-License-Identifier: Apache-2.0
#include "service/control/usage_feed.hpp"

#include <algorithm>
#include <map>

#include <spdlog/spdlog.h>
#include <unistd.h>

#include "dataplane/base/units.hpp"
#include "service/control/session.hpp"

namespace penstock {
namespace {

// What each client process was admitted for. One process may have several sessions.
std::vector<GrantedWork> granted_work(const ServiceState& state, const AdmissionDesk& desk) {
  std::map<std::uint32_t, std::uint64_t> by_pid;
  for (const auto& [id, session] : state.sessions) {
    const std::uint64_t bytes = desk.work_bytes(id);
    if (bytes > 0 && session->peer().pid > 0)
      by_pid[static_cast<std::uint32_t>(session->peer().pid)] += bytes;
  }
  std::vector<GrantedWork> granted;
  granted.reserve(by_pid.size());
  for (const auto& [pid, bytes] : by_pid) granted.push_back({.pid = pid, .bytes = bytes});
  return granted;
}

constexpr std::uint64_t without(std::uint64_t whole, std::uint64_t part) {
  return whole > part ? whole - part : 0;
}

}  // namespace

UsageFeed::UsageFeed(boost::asio::io_context& context, ServiceState& state, std::vector<Device> devices,
                     const UsageFeedTimes& times)
    : state_(state), times_(times), timer_(context) {
  for (Device& device : devices) {
    devices_.push_back(Watched{.device = std::move(device)});
    devices_.back().total_bytes = devices_.back().device.total_bytes;
  }
}

void UsageFeed::start() {
  if (devices_.empty()) return;
  look(monotonic_now());
  timer_.expires_after(times_.interval);
  timer_.async_wait([this, life = life_.watch()](const boost::system::error_code& error) {
    if (!error && !life.over()) start();
  });
}

void UsageFeed::look(Nanoseconds now) {
  for (Watched& one : devices_) look_at(one, now);
}

void UsageFeed::look_at(Watched& one, Nanoseconds now) {
  const UsageSnapshot snapshot = one.device.watch->newest(now);
  const bool has_news = std::exchange(one.source_readings, snapshot.readings) != snapshot.readings;
  GpuUsageStats stats = report(one, snapshot);
  ask_writer(one);
  const bool known = stats.foreign_bytes && (stats.shares_host_memory || stats.age <= times_.fresh);
  std::optional<std::uint64_t> foreign;
  if (known) {
    if (has_news || stats.shares_host_memory) {
      one.by_source.read(*stats.foreign_bytes_least, *stats.foreign_bytes);
      one.total_bytes = without(*stats.total_bytes, *stats.reserved_bytes);
    }
    foreign = one.by_source.bytes();
  } else {
    stats.ghost_bytes.reset();
    stats.free_bytes.reset();
  }
  stats.foreign_bytes = foreign;
  const std::uint64_t assumed =
      std::max(one.by_source.bytes().value_or(0), one.by_writer.bytes().value_or(0));
  state_.admissions[one.device.position]->set_room(one.total_bytes, foreign, foreign ? 0 : assumed);
  tell_state(one, stats);
  tell_change(one, foreign.value_or(assumed));
  state_.usage[one.device.position] = stats;
}

GpuUsageStats UsageFeed::report(const Watched& one, const UsageSnapshot& snapshot) const {
  const AdmissionDesk& desk = *state_.admissions[one.device.position];
  const std::vector<GrantedWork> granted = granted_work(state_, desk);
  // Readings of a source bring their own count of frames; the machine's memory is read now.
  const OwnUsage own{.frame_bytes = one.device.frames().least,
                     .service_pid = static_cast<std::uint32_t>(::getpid()),
                     .writer_pid = one.device.writer_pid(),
                     .granted = granted};
  std::optional<HostMemory> host;
  if (one.device.shares_host_memory) {
    if (const auto memory = read_host_memory("/proc")) host = *memory;
  }
  GpuUsageStats stats = report_usage(snapshot, one.device.gpu, own, host);
  if (host && stats.state != "lost") stats.state = "current";
  return stats;
}

void UsageFeed::ask_writer(Watched& one) {
  const std::optional<WriterReading> reading = one.device.seen_by_writer();
  if (!reading || reading->number == one.writer_readings) return;
  one.writer_readings = reading->number;
  const std::uint64_t used = without(one.device.total_bytes, reading->free_bytes);
  one.by_writer.read(without(used, reading->frames.most), without(used, reading->frames.least));
}

void UsageFeed::tell_state(Watched& one, const GpuUsageStats& stats) {
  if (stats.state == one.told_state || stats.state == "starting") return;
  const std::string& id = state_.devices[one.device.position]->description().id;
  const std::string_view source = one.device.watch->name();
  if (stats.state == "current") {
    if (!one.told_state.empty()) spdlog::info("device {}: {} tells again what others use", id, source);
  } else if (stats.state == "absent") {
    spdlog::info("device {}: {} is not here: what others use is not known, only what is free", id, source);
  } else {
    spdlog::warn("device {}: {} does not tell what others use ({}); the last figures count", id, source,
                 stats.state);
  }
  one.told_state = stats.state;
}

// A page more or less decides something.
void UsageFeed::tell_change(Watched& one, std::uint64_t foreign_bytes) {
  const DeviceLink::Description& device = state_.devices[one.device.position]->description();
  const bool grew = foreign_bytes > one.told_bytes;
  const std::uint64_t change = grew ? foreign_bytes - one.told_bytes : one.told_bytes - foreign_bytes;
  if (change < device.limits.frame_bytes) return;
  one.told_bytes = foreign_bytes;
  const LedgerFigures figures = state_.admissions[one.device.position]->figures();
  state_.decide("budget", device.id, figures.pager_budget_bytes,
                grew ? "others use more of the device" : "others use less of the device",
                {{"foreign_bytes", foreign_bytes},
                 {"total_bytes", one.total_bytes},
                 {"headroom_bytes", figures.headroom_bytes},
                 {"booked_bytes", figures.booked_bytes()},
                 {"budget_bytes", figures.pager_budget_bytes}});
}

}  // namespace penstock
