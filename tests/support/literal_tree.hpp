// SPDX-License-Identifier: Apache-2.0
// A tree of files written down in a test, as a root for readers of /proc and /sys.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "dataplane/base/unique_fd.hpp"
#include "tests/support/temporary_folder.hpp"

namespace penstock::test {

class LiteralTree {
 public:
  using Entry = std::pair<std::string_view, std::string_view>;

  // Paths are relative to the root; folders are made as needed.
  LiteralTree(std::initializer_list<Entry> files = {});

  // In place: a descriptor that is open sees the new text, as with kernel files.
  void write(std::string_view path, std::string_view text) const;
  // A folder where a file is looked for: it opens, and reading it fails.
  void make_folder(std::string_view path) const;
  void remove(std::string_view path) const;

  const UniqueFd& root() const { return root_; }
  std::string path() const { return folder_.path().string(); }

 private:
  TemporaryFolder folder_;
  UniqueFd root_;
};

}  // namespace penstock::test
