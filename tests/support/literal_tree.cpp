// SPDX-License-Identifier: Apache-2.0
#include "tests/support/literal_tree.hpp"

#include <filesystem>

#include <fcntl.h>

#include "dataplane/base/check.hpp"

namespace penstock::test {

LiteralTree::LiteralTree(std::initializer_list<Entry> files)
    : root_(::open(folder_.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  CHECK(static_cast<bool>(root_));
  for (const auto& [path, text] : files) write(path, text);
}

void LiteralTree::write(std::string_view path, std::string_view text) const {
  std::filesystem::create_directories((folder_.path() / path).parent_path());
  folder_.write(path, text);
}

void LiteralTree::make_folder(std::string_view path) const {
  std::filesystem::create_directories(folder_.path() / path);
}

void LiteralTree::remove(std::string_view path) const { std::filesystem::remove_all(folder_.path() / path); }

}  // namespace penstock::test
