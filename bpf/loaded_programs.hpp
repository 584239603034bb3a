// SPDX-License-Identifier: Apache-2.0
// LoadedPrograms: the object of all programs, its maps in this process's memory, and what keeps it attached.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bpf/probe_plan.hpp"
#include "bpf/programs.hpp"
#include "dataplane/base/mapping.hpp"

struct bpf_link;
struct bpf_program;
struct probes;
struct ring_buffer;

namespace penstock {

// A step that the kernel refused, and its errno.
struct Refusal {
  const char* step = nullptr;  // nullptr: none.
  int error = 0;
};

class LoadedPrograms final : public Programs {
 public:
  // Loads these alternatives, indexed by Probe, nullptr for none; attaches nothing. On failure nothing stays.
  static Refusal open(std::span<const Alternative* const, probes> chosen, const ProgramOptions& options,
                      std::unique_ptr<LoadedPrograms>& result);
  LoadedPrograms(const LoadedPrograms&) = delete;
  LoadedPrograms& operator=(const LoadedPrograms&) = delete;
  ~LoadedPrograms() override;

  // Of the chosen one. On failure this probe is detached, and the others stay.
  Refusal attach(Probe probe);
  // Maps what is shared, and makes the ring of hints. After the last attach().
  Refusal share();

  std::uint64_t missed(Probe probe) const override;
  pst_file* files() const override;
  pst_extent* extents() const override;
  const pst_machine& machine() const override;
  Result<> add_key(std::uint64_t address_space, const pst_file_key& key) override;
  void remove_key(std::uint64_t address_space) override;
  Result<std::vector<pst_resolved>> resolve(std::uint64_t address) override;
  std::vector<std::pair<std::uint64_t, pst_cgroup>> cgroups() const override;
  int hint_fd() const override;
  void consume_hints(const std::function<void(const pst_hint&)>& take) override;

 private:
  struct Link {
    Probe probe;
    bpf_link* link;
  };
  LoadedPrograms() = default;
  bpf_program* program(const char* name) const;
  void forget_recent_files();
  Refusal attach_program(Probe probe, bpf_program* program);
  Refusal attach_to_faults(Probe probe, bpf_program* program);
  void detach(Probe probe);

  ::probes* skeleton_ = nullptr;
  std::array<const Alternative*, penstock::probes> chosen_{};
  std::vector<Link> links_;
  Mapping files_, extents_, machine_;
  ring_buffer* ring_ = nullptr;
  const std::function<void(const pst_hint&)>* take_ = nullptr;  // During consume_hints.
};

}  // namespace penstock
