// SPDX-License-Identifier: Apache-2.0
// Small files whose content the kernel makes anew for each read, held open between reads.
#pragma once

#include <string>
#include <string_view>

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

  // As read_text; valid until the next call. Opens the file at the first call and again after a failure. Allocates
  // nothing after the first call, unless the text grows beyond all before.
  Result<std::string_view> read(int directory);
  const char* name() const { return name_; }

 private:
  const char* name_;
  UniqueFd fd_;
  std::string buffer_;
};

}  // namespace penstock
