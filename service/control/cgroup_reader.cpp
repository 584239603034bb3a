// SPDX-License-Identifier: Apache-2.0
#include "service/control/cgroup_reader.hpp"

#include <algorithm>

#include <fcntl.h>
#include <fmt/format.h>

namespace penstock {
namespace {

constexpr const char* machine_file = "proc/pressure/memory";
constexpr const char* cgroup_file = "memory.pressure";

CgroupFigures read_figures(CgroupFiles& files, CgroupUseFiles& use, Warnings& warnings) {
  CgroupFigures figures{.limits = files.read(warnings),
                        .use = use.read_use(files.directory()),
                        .events = use.read_events(files.directory())};
  // A limit of a parent is counted there: the own cgroup would say 0 of it for ever.
  const CgroupHits hits = files.read_hits();
  figures.events.limit_hits = hits.max;
  figures.events.high_hits = hits.high;
  return figures;
}

}  // namespace

CgroupReader::CgroupReader(const std::string& root)
    : root_(::open(root.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)),
      memory_(CgroupFiles::open(root_.get(), unheard_)),
      unified_(CgroupFiles::open(root_.get(), unheard_, CgroupHierarchy::unified)),
      use_(memory_.version(), root_.get()) {
  memory_.read(unheard_);
  tightest_ = memory_.tightest_directory();
  add(PressureScope::machine, root_.get(), machine_file);
  // Taken for the service's own, what the machine waits for would take its pages within limits of somebody else.
  if (unified_.directory() >= 0 && !unified_.is_machine())
    add(PressureScope::service, unified_.directory(), cgroup_file);
  // Of v1 there are no pressure files, and the root has no limit; the service's own limit has its pressure already.
  const bool above = tightest_ >= 0 && tightest_ != memory_.directory();
  if (above && memory_.version() == CgroupVersion::v2) add(PressureScope::limit, tightest_, cgroup_file);
}

void CgroupReader::add(PressureScope scope, int directory, const char* path) {
  // No cgroup has such a file while PSI is off: nothing that an operator should hear of twice.
  if (scope != PressureScope::machine && ::faccessat(directory, path, F_OK, 0) != 0) {
    missing_.push_back({scope, directory, path});
    return;
  }
  const auto name = pressure_scope_names[static_cast<std::size_t>(scope)];
  places_.push_back({scope, directory, path,
                     PressureSource::of_file(directory, path, fmt::format("memory pressure ({})", name)),
                     false, false});
}

// Without this a PSI that is switched on later, cgroup by cgroup even, would be shown and never be watched.
bool CgroupReader::can_watch_more() const {
  return std::ranges::any_of(places_,
                             [](const Place& place) { return place.lacks_edge && place.readable; }) ||
         std::ranges::any_of(
             missing_, [](const Missing& one) { return ::faccessat(one.directory, one.path, F_OK, 0) == 0; });
}

bool CgroupReader::is_outdated() {
  if (can_watch_more()) return true;
  const Result<std::string> membership = read_text(root_.get(), "proc/self/cgroup");
  elsewhere_ = memory_.tightest_directory() == tightest_ ? 0 : elsewhere_ + 1;
  const bool left = tightest_ < 0 ? elsewhere_ > 0 : elsewhere_ >= looks_elsewhere;
  return left || (membership && *membership != memory_.membership());
}

void CgroupReader::read(KernelStats& stats) {
  for (Place& place : places_) {
    PressureFigures& figures = stats.pressure[static_cast<std::size_t>(place.scope)];
    figures.looked_for = true;
    figures.pressure = place.source.read(warnings_);
    // As PressureEdge needs it.
    place.readable = figures.pressure && figures.pressure->some;
  }
  for (const Missing& one : missing_) stats.pressure[static_cast<std::size_t>(one.scope)].looked_for = true;
  if (memory_.directory() < 0 || memory_.is_machine()) return;
  stats.cgroup = read_figures(memory_, use_, unheard_);
}

std::vector<std::pair<PressureScope, PressureEdge>> CgroupReader::edges() {
  std::vector<std::pair<PressureScope, PressureEdge>> edges;
  for (Place& place : places_) {
    Result<PressureEdge> edge = PressureEdge::open(place.directory, place.path, {});
    place.lacks_edge = !edge.has_value();
    if (edge) edges.emplace_back(place.scope, *std::move(edge));
  }
  return edges;
}

std::optional<ClientCgroupFigures> CgroupReader::read_client(const ProcessRef& process, Warnings& warnings) {
  Warnings unseen;
  Result<CgroupFiles> files = CgroupFiles::open(root_.get(), process, unseen);
  if (!files || files->path() == memory_.path()) return std::nullopt;
  for (std::string& text : unseen.take()) warnings.add(std::move(text));
  if (files->directory() < 0 || files->is_machine()) return std::nullopt;
  CgroupUseFiles use(files->version(), root_.get());
  ClientCgroupFigures figures;
  figures.cgroup_id = files->id();
  figures.cgroup = read_figures(*files, use, unheard_);
  const Result<CgroupFiles> unified =
      CgroupFiles::open(root_.get(), process, warnings, CgroupHierarchy::unified);
  if (unified && unified->directory() >= 0 && !unified->is_machine()) {
    const Result<std::string> text = read_text(unified->directory(), cgroup_file);
    const Result<Pressure> pressure = text ? parse_pressure(*text) : text.error();
    if (pressure) figures.pressure = *pressure;
  }
  return figures;
}

}  // namespace penstock
