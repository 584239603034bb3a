// SPDX-License-Identifier: Apache-2.0
// Small files whose content the kernel makes anew for each read, held open between reads.
#pragma once

#include <string>

#include "dataplane/base/result.hpp"
#include "dataplane/base/unique_fd.hpp"

namespace penstock {

// All of a file below `directory`. Errc::not_found when it is not there, Errc::io when it can't be read or is longer
// than a megabyte; `native` is the errno.
Result<std::string> read_text(int directory, const char* path);

class TextFile {
 public:
  // `name` is a literal.
  explicit TextFile(const char* name) : name_(name) {}

  // As read_text. Opens the file at the first call and again after a failure.
  Result<std::string> read(int directory);
  const char* name() const { return name_; }

 private:
  const char* name_;
  UniqueFd fd_;
};

}  // namespace penstock
