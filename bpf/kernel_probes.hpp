// SPDX-License-Identifier: Apache-2.0
// KernelProbes: the ProbeSet of a real kernel. By BPF where that is allowed, by asking where it isn't; a file that BPF
// can't follow is asked about, and its Tracking says why.
#pragma once

#include <bitset>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "bpf/extent_table.hpp"
#include "bpf/file_user.hpp"
#include "bpf/probe_set.hpp"
#include "bpf/programs.hpp"
#include "bpf/tracked_file.hpp"
#include "bpf/warnings.hpp"

namespace penstock {

struct ProbeOptions {
  bool use_bpf = true;
  std::string why_not = "turned off";  // What the reports say where it is not used.
  ProgramOptions programs;
};

class KernelProbes final : public ProbeSet {
 public:
  // Never fails: with nothing allowed, the level is none. Takes about 50 ms with BPF.
  static std::unique_ptr<KernelProbes> open(const ProbeOptions& options = {});
  KernelProbes(const KernelProbes&) = delete;
  KernelProbes& operator=(const KernelProbes&) = delete;
  ~KernelProbes() override;

  std::vector<ProbeReport> report() override;
  ProbeLevel level() const override { return level_; }
  Result<Tracking> track(int fd, std::shared_ptr<const void> owner) override;
  void untrack(TrackedFileId file) override;
  FileSample sample(TrackedFileId file) override;
  std::size_t sample_extents(TrackedFileId file, std::span<ExtentSample> extents) override;
  std::uint64_t extent_bytes(TrackedFileId file) const override;
  std::size_t extents(TrackedFileId file) const override;
  std::vector<CgroupSample> sample_cgroups() override;
  MachineSample sample_machine() override;
  void reconcile() override;
  void look_for_unlinked() override;
  int hint_fd() const override;
  void consume_hints(const std::function<void(const Hint&)>& take) override;

  // What an operator should hear once: what is not attached, and what that costs.
  std::vector<std::string> warnings() { return warnings_.take(); }

 private:
  KernelProbes(const KernelFacts& facts, const ProbeOptions& options, std::unique_ptr<Programs> programs,
               std::vector<ProbeReport> reports);
  ProbeLevel best_level() const;
  std::bitset<removal_causes> untold_causes() const;
  void warn_of_losses();
  // Nothing when the file can't be traced, with the reason in `why`.
  std::optional<pst_resolved> find(int fd, Mapping& mapping, std::string& why);
  void attach_counters(std::uint32_t slot, TrackedFile& file, const pst_resolved& seen, Mapping mapping);
  void detach_counters(TrackedFile& file);
  std::optional<std::uint64_t> kernel_pages(const TrackedFile& file);
  TrackedFileId free_id();
  const FileUser& user_of(TrackedFileId file) const;
  // Whose counters are its own: nullptr once it was copied up.
  const TrackedFile* counted(TrackedFileId file) const;
  ExtentRun run_of(TrackedFileId file) const;
  // One user less.
  void let_go(std::uint32_t slot);

  const KernelFacts facts_;
  const bool times_faults_;                   // Wanted; whether it is done, the report says.
  const std::unique_ptr<Programs> programs_;  // Null without BPF.
  std::vector<ProbeReport> reports_;
  Warnings warnings_;
  ProbeLevel level_ = ProbeLevel::none;
  std::bitset<removal_causes> untold_;  // FileTraffic::untold of all files.
  ExtentTable extent_table_;
  // By slot of the shared array; null where none is.
  std::vector<std::unique_ptr<TrackedFile>> files_;
  std::vector<std::uint32_t> free_slots_;  // The front is taken next.
  std::map<std::uint64_t, std::uint32_t> slot_of_key_;
  std::map<TrackedFileId, FileUser> users_;
  std::uint32_t next_id_ = 0;
  std::uint64_t corrections_ = 0;
};

}  // namespace penstock
