// SPDX-License-Identifier: Apache-2.0
// PressureWatch: a thread that waits for hints of the probes and for pressure, and tells of them as they come. It decides
// nothing and keeps nothing: whoever is told takes a snapshot of its own on its own turn.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "bpf/pressure_edge.hpp"
#include "bpf/probe_set.hpp"
#include "dataplane/base/event_fd.hpp"

namespace penstock {

class PressureWatch {
 public:
  // Both are called on the watch's thread. They may not block, and not allocate under pressure: post a message, signal.
  struct Told {
    std::function<void(const Hint&)> hint;
    // The bound of the edge with this index was passed.
    std::function<void(std::size_t edge)> pressure;
    // What it is now, four times a second and before each call of `pressure`. May be empty.
    std::function<void(std::size_t edge, const Pressure&)> seen = {};
  };
  static constexpr Nanoseconds seen_period = std::chrono::milliseconds(250);

  // `probes` must outlive the watch; nobody else consumes its hints. Fails when no eventfd can be made.
  static Result<std::unique_ptr<PressureWatch>> start(ProbeSet& probes, std::vector<PressureEdge> edges,
                                                      Told told);
  PressureWatch(const PressureWatch&) = delete;
  PressureWatch& operator=(const PressureWatch&) = delete;
  // Nothing is told after it returned.
  ~PressureWatch();

 private:
  PressureWatch(ProbeSet& probes, std::vector<PressureEdge> edges, Told told, EventFd stop);
  void run();
  void look_at(std::size_t edge);
  void see(std::size_t edge);

  ProbeSet& probes_;
  std::vector<PressureEdge> edges_;
  const Told told_;
  EventFd stop_;
  std::thread thread_;
};

}  // namespace penstock
