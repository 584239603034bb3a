// SPDX-License-Identifier: Apache-2.0
#include "tests/support/temporary_folder.hpp"

#include <cstdio>
#include <cstdlib>
#include <string>

#include "dataplane/base/check.hpp"

namespace penstock::test {

TemporaryFolder::TemporaryFolder(const std::filesystem::path& parent) {
  std::string pattern =
      (std::filesystem::absolute(parent) / "penstock-test-XXXXXX").lexically_normal().string();
  if (::mkdtemp(pattern.data()) == nullptr) std::perror(pattern.c_str());
  CHECK(std::filesystem::is_directory(pattern));
  path_ = pattern;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::filesystem::path TemporaryFolder::write(std::string_view name, std::span<const std::byte> bytes) const {
  const std::filesystem::path path = path_ / name;
  std::FILE* const file = std::fopen(path.c_str(), "wb");
  CHECK(file != nullptr);
  CHECK(std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size());
  CHECK(std::fclose(file) == 0);
  return path;
}

std::filesystem::path TemporaryFolder::write(std::string_view name, std::string_view text) const {
  return write(name, std::as_bytes(std::span(text)));
}

std::vector<std::byte> read_file(const std::filesystem::path& path) {
  std::FILE* const file = std::fopen(path.c_str(), "rb");
  CHECK(file != nullptr);
  std::vector<std::byte> bytes(std::filesystem::file_size(path));
  CHECK(std::fread(bytes.data(), 1, bytes.size(), file) == bytes.size());
  CHECK(std::fclose(file) == 0);
  return bytes;
}

}  // namespace penstock::test
