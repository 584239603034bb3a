// SPDX-License-Identifier: Apache-2.0
// CgroupReader: the service's own cgroup, the ancestor whose limit is the tightest, and the pressure of both and of the
// machine. Reads files of the kernel, microseconds each; one thread.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bpf/cgroup_files.hpp"
#include "bpf/pressure_edge.hpp"
#include "dataplane/base/unique_fd.hpp"
#include "service/control/kernel_stats.hpp"

namespace penstock {

class CgroupReader {
 public:
  // `root` is "/" or a literal tree. Nothing fails: what can't be read is absent.
  explicit CgroupReader(const std::string& root);
  CgroupReader(const CgroupReader&) = delete;
  CgroupReader& operator=(const CgroupReader&) = delete;

  // How often in a row another limit must have been the tightest: those that take turns would leave no time to see how
  // long anybody waits.
  static constexpr int looks_elsewhere = 4;

  // The process was put into another cgroup, another limit is the tightest and stays so, or a pressure that edges() had
  // to leave out can be watched, as of the last read(): open another reader. Asked once a look.
  bool is_outdated();
  // Fills in `cgroup` and the pressures.
  void read(KernelStats& stats);
  // Those that can be watched. They use this reader's descriptors: it must outlive them.
  std::vector<std::pair<PressureScope, PressureEdge>> edges();
  // 0 where the process is in no cgroup but the hierarchy's root, which is the machine.
  std::uint64_t cgroup_id() const { return memory_.is_machine() ? 0 : memory_.id(); }
  // A client's; nothing when it has ended or shares the service's, or its cgroup can't be seen, which `warnings` tells.
  std::optional<ClientCgroupFigures> read_client(const ProcessRef& process, Warnings& warnings);

  std::vector<std::string> warnings() { return warnings_.take(); }

 private:
  struct Place {
    PressureScope scope;
    int directory;
    const char* path;
    PressureSource source;
    bool lacks_edge;  // As of edges().
    bool readable;    // As of the last read().
  };
  struct Missing {
    PressureScope scope;
    int directory;
    const char* path;
  };
  bool can_watch_more() const;
  void add(PressureScope scope, int directory, const char* path);

  const UniqueFd root_;
  Warnings warnings_, unheard_;  // Whoever reads the headroom warns of limits.
  CgroupFiles memory_, unified_;
  CgroupUseFiles use_;
  int tightest_ = -1;
  int elsewhere_ = 0;  // Looks in a row at which another one was.
  std::vector<Place> places_;
  std::vector<Missing> missing_;  // Files that may come.
};

}  // namespace penstock
