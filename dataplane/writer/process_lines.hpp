// SPDX-License-Identifier: Apache-2.0
// ProcessLines: what a process says on its standard error, line by line: its own words, and those of the libraries in it.
// Never waits.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "dataplane/base/result.hpp"
#include "dataplane/base/unique_fd.hpp"

namespace penstock {

class ProcessLines {
 public:
  using Say = std::function<void(std::string_view line)>;

  // `end` is for the process.
  static Result<ProcessLines> open(UniqueFd& end);
  ProcessLines() = default;

  // Readable when there is something; -1 once nobody can say any more.
  int fd() const { return pipe_.get(); }
  // Says the lines that are complete. A line without an end is said in pieces, or when nobody can go on with it.
  void read(const Say& say);
  // Nothing more is wanted: says what is there.
  void close(const Say& say);

 private:
  UniqueFd pipe_;
  std::string partial_;
};

}  // namespace penstock
