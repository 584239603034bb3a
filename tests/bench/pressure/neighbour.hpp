// SPDX-License-Identifier: Apache-2.0
// A process beside the caller, in the same cgroup, that takes anonymous memory when it is told to.
#pragma once

#include <cstdint>

#include <sys/types.h>

#include "dataplane/base/unique_fd.hpp"

namespace penstock::bench {

class Neighbour {
 public:
  // REQUIRES: the caller has one thread. It takes at most `most_bytes`.
  explicit Neighbour(std::uint64_t most_bytes);
  ~Neighbour();
  Neighbour(const Neighbour&) = delete;
  Neighbour& operator=(const Neighbour&) = delete;

  // As quickly as the kernel gives them, in large pages where it has some. Returns the seconds that it took.
  double take(std::uint64_t bytes);
  void give_all();

 private:
  double ask(std::uint64_t bytes);

  UniqueFd channel_;
  pid_t process_ = -1;
};

}  // namespace penstock::bench
