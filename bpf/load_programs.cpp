// SPDX-License-Identifier: Apache-2.0
// Finds the best alternative of each probe that this kernel takes.
#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "bpf/kernel_btf.hpp"
#include "bpf/loaded_programs.hpp"
#include "bpf/probe_plan.hpp"

namespace penstock {
namespace {

class Search {
 public:
  Search(const KernelFacts& facts, const ProgramOptions& options, std::vector<ProbeReport>& reports)
      : facts_(facts), options_(options), reports_(reports) {}

  std::unique_ptr<Programs> run() {
    reports_.clear();
    for (const ProbePlan& plan : probe_plans()) reports_.push_back({.name = plan.name});
    if (!facts_.has_btf) return give_up("kernel BTF not found: /sys/kernel/btf/vmlinux can't be opened");
    const Result<KernelBtf> types = KernelBtf::load();
    if (!types) return give_up(explain_refusal(facts_, "read the kernel's BTF", types.error().native));
    symbols_ = types->symbols();
    for (std::size_t i = 0; i < probes; ++i) choose_next(i);
    // Each turn but the last passes over an alternative.
    while (true) {
      std::unique_ptr<LoadedPrograms> programs;
      const Refusal refusal = load(programs);
      if (refusal.step != nullptr) return give_up(explain_refusal(facts_, refusal.step, refusal.error));
      if (attach(*programs)) return share(std::move(programs));
    }
  }

 private:
  std::unique_ptr<Programs> give_up(const std::string& why) {
    for (ProbeReport& report : reports_) {
      report.attached = false;
      report.how.clear();
      if (report.why.empty()) report.why = why;
    }
    return nullptr;
  }

  // The next alternative that the kernel has all parts of; none is nullptr. What was passed over is told in `why`.
  void choose_next(std::size_t probe) {
    const ProbePlan& plan = probe_plans()[probe];
    chosen_[probe] = nullptr;
    const bool left_out = (options_.left_out >> probe & 1) != 0;
    if (left_out || (plan.probe == Probe::major_faults && !options_.time_faults)) {
      reports_[probe].why = "turned off";
      return;
    }
    while (next_[probe] < plan.alternatives.size()) {
      const Alternative& alternative = plan.alternatives[next_[probe]++];
      const std::string missing = missing_for(alternative, symbols_);
      if (missing.empty()) {
        chosen_[probe] = &alternative;
        return;
      }
      pass_over(probe, alternative, missing);
    }
  }

  void choose_what_loads(std::size_t probe) {
    while (chosen_[probe] != nullptr) {
      std::array<const Alternative*, probes> alone{};
      alone[probe] = chosen_[probe];
      std::unique_ptr<LoadedPrograms> programs;
      const Refusal refusal = LoadedPrograms::open(alone, options_, programs);
      if (refusal.step == nullptr) return;
      pass_over(probe, *chosen_[probe], explain_refusal(facts_, refusal.step, refusal.error));
      choose_next(probe);
    }
  }

  void pass_over(std::size_t probe, const Alternative& alternative, const std::string& why) {
    std::string& line = reports_[probe].why;
    line += fmt::format("{}{}: {}", line.empty() ? "" : "; ", alternative.how, why);
  }

  Refusal load(std::unique_ptr<LoadedPrograms>& programs) {
    if (LoadedPrograms::open(chosen_, options_, programs).step == nullptr) return {};
    for (std::size_t i = 0; i < probes; ++i) choose_what_loads(i);
    return LoadedPrograms::open(chosen_, options_, programs);
  }

  // False when something was refused in whose place there is another alternative: all is loaded anew then.
  bool attach(LoadedPrograms& programs) {
    bool done = true;
    for (std::size_t i = 0; i < probes; ++i) {
      reports_[i].attached = false;
      if (chosen_[i] == nullptr) continue;
      const Refusal refusal = programs.attach(static_cast<Probe>(i));
      if (refusal.step != nullptr) {
        pass_over(i, *chosen_[i], explain_refusal(facts_, refusal.step, refusal.error));
        choose_next(i);
        if (chosen_[i] != nullptr) done = false;
        continue;
      }
      reports_[i].attached = true;
      reports_[i].how = chosen_[i]->how;
    }
    return done;
  }

  std::unique_ptr<Programs> share(std::unique_ptr<LoadedPrograms> programs) {
    if (std::ranges::none_of(reports_, &ProbeReport::attached)) return nullptr;
    const Refusal refusal = programs->share();
    if (refusal.step != nullptr) return give_up(explain_refusal(facts_, refusal.step, refusal.error));
    return programs;
  }

  const KernelFacts& facts_;
  const ProgramOptions& options_;
  std::vector<ProbeReport>& reports_;
  KernelSymbols symbols_;
  std::array<std::size_t, probes> next_{};
  std::array<const Alternative*, probes> chosen_{};
};

}  // namespace

std::unique_ptr<Programs> Programs::load(const KernelFacts& facts, const ProgramOptions& options,
                                         std::vector<ProbeReport>& reports) {
  return Search(facts, options, reports).run();
}

}  // namespace penstock
