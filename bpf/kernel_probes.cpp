// SPDX-License-Identifier: Apache-2.0
#include "bpf/kernel_probes.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <numeric>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "bpf/probe_plan.hpp"
#include "dataplane/base/check.hpp"
#include "dataplane/base/unique_fd.hpp"

namespace penstock {
namespace {

constexpr std::uint32_t dax_flag = 1 << 13;  // S_DAX of the kernel's inode: its pages are in no page cache.

std::uint64_t page_bytes() { return static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)); }
std::uint64_t pages_of(std::uint64_t bytes) { return (bytes + page_bytes() - 1) / page_bytes(); }

// Why the page cache of what was found can't be traced; "" when it can.
std::string untraceable(const pst_resolved& seen) {
  if (seen.magic == TMPFS_MAGIC) return "tmpfs: what is added there is not traced";
  if (seen.magic == RAMFS_MAGIC) return "ramfs: what is added there is not traced";
  if (seen.magic == HUGETLBFS_MAGIC) return "hugetlbfs: its pages are not in the page cache";
  if ((seen.inode_flags & dax_flag) != 0) return "DAX: the file has no pages in the page cache";
  return {};
}

ReclaimSample sample_of(const pst_episodes& episodes) {
  return {episodes.count, episodes.ns, episodes.pages * page_bytes(), episodes.longest_ns};
}

Hint hint_of(const pst_hint& raw) {
  Hint hint;
  hint.at = Nanoseconds(raw.at_ns);
  hint.cgroup = raw.cgroup;
  hint.bytes = raw.pages * page_bytes();
  hint.process = raw.process;
  std::copy_n(raw.command, hint.command.size() - 1, hint.command.begin());
  if (raw.kind == PST_HINT_RECLAIMED) {
    hint.kind = Hint::Kind::reclaimed;
    hint.file = raw.slot;
    hint.cause = static_cast<RemovalCause>(raw.detail);
  } else if (raw.kind == PST_HINT_STALL) {
    hint.kind = Hint::Kind::stall;
    hint.reclaim = static_cast<ReclaimKind>(raw.detail);
    hint.duration = Nanoseconds(raw.ns);
  } else {
    hint.kind = Hint::Kind::oom_kill;
  }
  return hint;
}

template <class Counters>
LatencyHistogram histogram_of(const Counters& counters) {
  LatencyHistogram histogram{};
  static_assert(sizeof histogram == sizeof counters);
  std::ranges::copy(counters, histogram.begin());
  return histogram;
}

}  // namespace

std::unique_ptr<KernelProbes> KernelProbes::open(const ProbeOptions& options) {
  const UniqueFd root(::open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const KernelFacts facts = root ? read_kernel_facts(root.get()) : KernelFacts{};
  std::vector<ProbeReport> reports;
  std::unique_ptr<Programs> programs;
  if (options.use_bpf) {
    programs = Programs::load(facts, options.programs, reports);
  } else {
    for (const ProbePlan& plan : probe_plans())
      reports.push_back({.name = plan.name, .why = options.why_not});
  }
  return std::unique_ptr<KernelProbes>(
      new KernelProbes(facts, options, std::move(programs), std::move(reports)));
}

KernelProbes::KernelProbes(const KernelFacts& facts, const ProbeOptions& options,
                           std::unique_ptr<Programs> programs, std::vector<ProbeReport> reports)
    : facts_(facts),
      times_faults_(options.programs.time_faults),
      programs_(std::move(programs)),
      reports_(std::move(reports)),
      extent_table_(PST_EXTENTS_MAX, PST_FILES_MAX),
      files_(PST_FILES_MAX),
      free_slots_(PST_FILES_MAX) {
  std::iota(free_slots_.begin(), free_slots_.end(), 0u);
  level_ = best_level();
  if (level_ >= ProbeLevel::traced) untold_ = untold_causes();
  warn_of_losses();
}

KernelProbes::~KernelProbes() = default;

ProbeLevel KernelProbes::best_level() const {
  if (programs_ && programs_->attached(Probe::page_cache)) {
    return programs_->attached(Probe::major_faults) ? ProbeLevel::traced_and_faults : ProbeLevel::traced;
  }
  // This program's own file stands for any on a disk.
  const UniqueFd self(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  return self ? ResidencyQuery::choose(self.get(), facts_).level() : ProbeLevel::none;
}

// Without its mark a reclaim is one of the other kind.
std::bitset<removal_causes> KernelProbes::untold_causes() const {
  std::bitset<removal_causes> untold;
  const auto set = [&](RemovalCause cause) { untold.set(static_cast<std::size_t>(cause)); };
  if (!programs_->attached(Probe::direct_reclaim)) set(RemovalCause::direct_reclaim);
  if (!programs_->attached(Probe::memcg_reclaim)) set(RemovalCause::memcg_limit);
  if (untold.any()) set(RemovalCause::other_reclaim);
  return untold;
}

void KernelProbes::warn_of_losses() {
  const std::string loss =
      level_ < ProbeLevel::traced
          ? fmt::format("of the page cache is known what is resident ({}), not what comes and goes and why",
                        probe_level_name(level_))
          : "pages of the page cache are traced, major faults on them are not";
  if (!programs_) {
    // One cause for all of them: one line.
    warnings_.add(fmt::format("no BPF probe is attached: {}; {}", reports_.front().why, loss));
    return;
  }
  const auto wanted = [this](Probe probe) { return probe != Probe::major_faults || times_faults_; };
  for (std::size_t i = 0; i < probes; ++i) {
    const ProbeReport& report = reports_[i];
    if (report.attached || !wanted(static_cast<Probe>(i))) continue;
    warnings_.add(fmt::format("probe {} is not attached: {}", report.name, report.why));
  }
  if (untold_.any()) {
    std::string causes;
    for (std::size_t cause = 0; cause < removal_causes; ++cause) {
      if (!untold_[cause]) continue;
      causes += fmt::format("{}{}", causes.empty() ? "" : ", ",
                            removal_cause_name(static_cast<RemovalCause>(cause)));
    }
    warnings_.add(fmt::format("pages that reclaim takes are not told apart by these causes: {}", causes));
  }
  const ProbeLevel best = times_faults_ ? ProbeLevel::traced_and_faults : ProbeLevel::traced;
  if (level_ < best) warnings_.add(loss);
}

std::vector<ProbeReport> KernelProbes::report() {
  for (std::size_t i = 0; programs_ && i < probes; ++i)
    reports_[i].missed = programs_->missed(static_cast<Probe>(i));
  return reports_;
}

std::optional<pst_resolved> KernelProbes::find(int fd, Mapping& mapping, std::string& why) {
  if (!programs_ || !programs_->attached(Probe::page_cache)) {
    why = reports_[static_cast<std::size_t>(Probe::page_cache)].why;
    return std::nullopt;
  }
  // The kernel tells of mappings which inode they show: of an overlay's file, the one below.
  Result<Mapping> one_page = Mapping::shared(fd, page_bytes(), Access::read);
  if (!one_page) {
    why = fmt::format("the file can't be mapped: {}", std::strerror(one_page.error().native));
    return std::nullopt;
  }
  mapping = *std::move(one_page);
  const auto address = reinterpret_cast<std::uint64_t>(mapping.data());
  const Result<std::vector<pst_resolved>> all = programs_->resolve(address);
  if (!all) {
    why = explain_refusal(facts_, all.error().operation, all.error().native);
    return std::nullopt;
  }
  const auto seen = std::ranges::find(*all, address, &pst_resolved::address);
  if (seen == all->end()) {
    why = "the kernel does not tell which inode lies behind the file";
    return std::nullopt;
  }
  why = untraceable(*seen);
  return why.empty() ? std::optional(*seen) : std::nullopt;
}

Result<Tracking> KernelProbes::track(int fd, std::shared_ptr<const void> owner) {
  const std::optional<KnownStatus> status = known_status(fd);
  if (!status) return Error{Errc::io, errno, "statx of a file to track"};
  if (!S_ISREG(status->mode)) return Error{Errc::invalid, 0, "track what is no regular file"};
  Mapping mapping;
  std::string why;
  const std::optional<pst_resolved> seen = find(fd, mapping, why);
  const bool traced = seen.has_value();
  const auto known = traced ? slot_of_key_.find(seen->key) : slot_of_key_.end();
  std::uint32_t slot = 0;
  ProbeLevel level = level_;
  if (known != slot_of_key_.end()) {
    slot = known->second;
  } else {
    if (free_slots_.empty()) return Error{Errc::exhausted, 0, "track one more file"};
    slot = free_slots_.front();
    free_slots_.erase(free_slots_.begin());
    const ResidencyQuery query = ResidencyQuery::choose(fd, facts_);
    files_[slot] = std::make_unique<TrackedFile>(OwnedFd{fd, owner}, query, status->bytes);
    if (traced) attach_counters(slot, *files_[slot], *seen, std::move(mapping));
    if (!traced) level = query.level();
    if (!traced && query.why()[0] != '\0') why += fmt::format("; {}", query.why());
  }
  ++files_[slot]->users;
  const TrackedFileId id = free_id();
  users_.emplace(id, FileUser(OwnedFd{fd, std::move(owner)}, *status, slot));
  Tracking tracking{.file = id, .level = level, .seen = {}, .why = why, .counters = slot};
  if (traced) tracking.seen = KernelFile{seen->device, seen->inode, seen->generation};
  return tracking;
}

TrackedFileId KernelProbes::free_id() {
  while (users_.contains(TrackedFileId{next_id_})) ++next_id_;
  return TrackedFileId{next_id_++};
}

void KernelProbes::attach_counters(std::uint32_t slot, TrackedFile& file, const pst_resolved& seen,
                                   Mapping mapping) {
  const std::optional<ExtentRun> run = extent_table_.take(pages_of(file.bytes()));
  CHECK(run);  // Each file that has a slot finds a place.
  file.count_at({programs_->files(), programs_->extents()}, slot, *run, seen, std::move(mapping));
  const pst_file_key key{
      .slot = slot, .first_extent = run->first, .extents = run->count, .extent_shift = run->shift};
  const Result<> added = programs_->add_key(seen.key, key);
  CHECK(added);  // There are as many places as slots.
  slot_of_key_[seen.key] = slot;
  file.begin([&] { return kernel_pages(file); });
}

std::optional<std::uint64_t> KernelProbes::kernel_pages(const TrackedFile& file) {
  const Result<std::vector<pst_resolved>> all = programs_->resolve(file.mapped_at());
  if (!all) return std::nullopt;
  const auto seen = std::ranges::find(*all, file.mapped_at(), &pst_resolved::address);
  return seen == all->end() ? std::nullopt : std::optional(seen->pages);
}

void KernelProbes::untrack(TrackedFileId id) {
  const FileUser user = user_of(id);
  users_.erase(id);
  if (!user.copied_up()) let_go(user.slot());
}

void KernelProbes::let_go(std::uint32_t slot) {
  TrackedFile& file = *files_[slot];
  if (--file.users > 0) return;
  if (file.traced()) detach_counters(file);
  files_[slot].reset();
  free_slots_.push_back(slot);
}

void KernelProbes::detach_counters(TrackedFile& file) {
  // Before the descriptor goes: as long as that is held, the key means this file and no other.
  programs_->remove_key(file.key());
  slot_of_key_.erase(file.key());
  extent_table_.give_back(file.run());
}

const FileUser& KernelProbes::user_of(TrackedFileId id) const {
  const auto user = users_.find(id);
  CHECK(user != users_.end());
  return user->second;
}

const TrackedFile* KernelProbes::counted(TrackedFileId id) const {
  const FileUser& user = user_of(id);
  return user.copied_up() ? nullptr : files_[user.slot()].get();
}

FileSample KernelProbes::sample(TrackedFileId id) {
  const FileUser& user = user_of(id);
  const TrackedFile* const file = counted(id);
  FileSample sample = file != nullptr ? file->sample(level_) : FileSample{};
  if (sample.traffic) sample.traffic->untold = untold_;
  sample.unlinked = user.unlinked();
  sample.copied_up = user.copied_up();
  return sample;
}

std::size_t KernelProbes::sample_extents(TrackedFileId id, std::span<ExtentSample> into) {
  const TrackedFile* const file = counted(id);
  const std::size_t count = std::min(into.size(), extents(id));
  for (std::size_t i = 0; i < count; ++i) into[i] = file != nullptr ? file->extent(i) : ExtentSample{};
  return count;
}

std::uint64_t KernelProbes::extent_bytes(TrackedFileId id) const { return page_bytes() << run_of(id).shift; }
std::size_t KernelProbes::extents(TrackedFileId id) const { return run_of(id).count; }

ExtentRun KernelProbes::run_of(TrackedFileId id) const {
  const TrackedFile* const file = counted(id);
  return file != nullptr ? file->run() : ExtentTable::shape(pages_of(user_of(id).bytes()));
}

std::vector<CgroupSample> KernelProbes::sample_cgroups() {
  std::vector<CgroupSample> samples;
  if (!programs_) return samples;
  for (const auto& [id, counters] : programs_->cgroups()) {
    CgroupSample sample{.id = id, .reclaim = {}, .oom_kills = counters.oom_kills};
    for (std::size_t kind = 0; kind < reclaim_kinds; ++kind)
      sample.reclaim[kind] = sample_of(counters.reclaim[kind]);
    samples.push_back(sample);
  }
  return samples;
}

MachineSample KernelProbes::sample_machine() {
  MachineSample sample;
  if (!programs_) return sample;
  const pst_machine& counters = programs_->machine();
  if (programs_->attached(Probe::kswapd)) sample.kswapd_wakes = counters.kswapd_wakes;
  if (programs_->attached(Probe::oom_kill)) sample.oom_kills = counters.oom_kills;
  constexpr Probe of_kind[] = {Probe::direct_reclaim, Probe::memcg_reclaim, Probe::soft_limit_reclaim,
                               Probe::node_reclaim};
  for (std::size_t kind = 0; kind < reclaim_kinds; ++kind) {
    if (!programs_->attached(of_kind[kind])) continue;
    sample.reclaim_durations[kind] = histogram_of(counters.reclaim_histogram[kind]);
  }
  if (programs_->attached(Probe::major_faults))
    sample.fault_durations = histogram_of(counters.fault_histogram);
  sample.fault_ns = counters.fault_ns;
  sample.hints_lost = counters.hints_lost;
  sample.cgroups_lost = counters.cgroups_lost;
  sample.tasks_lost = counters.tasks_lost;
  sample.corrections = corrections_;
  return sample;
}

void KernelProbes::look_for_unlinked() {
  for (auto& [id, user] : users_) {
    if (user.look()) let_go(user.slot());
  }
}

void KernelProbes::reconcile() {
  if (slot_of_key_.empty()) return;
  const Result<std::vector<pst_resolved>> all = programs_->resolve(0);
  if (!all) return;
  for (const pst_resolved& seen : *all) {
    const auto slot = slot_of_key_.find(seen.key);
    if (slot == slot_of_key_.end()) continue;
    TrackedFile& file = *files_[slot->second];
    // Clients' and our other mappings of the file are in the answer too.
    if (file.mapped_at() != seen.address) continue;
    if (file.reconcile(seen.pages)) ++corrections_;
    file.settle_extents([&] { return kernel_pages(file); });
  }
}

int KernelProbes::hint_fd() const { return programs_ ? programs_->hint_fd() : -1; }

void KernelProbes::consume_hints(const std::function<void(const Hint&)>& take) {
  if (programs_) programs_->consume_hints([&](const pst_hint& raw) { take(hint_of(raw)); });
}

}  // namespace penstock
