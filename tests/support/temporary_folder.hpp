// SPDX-License-Identifier: Apache-2.0
// A folder of its own for one test, removed with everything in it.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

namespace penstock::test {

class TemporaryFolder {
 public:
  // Under `parent`, or under the system's folder for temporary files. Aborts when it can't be made.
  explicit TemporaryFolder(const std::filesystem::path& parent = std::filesystem::temp_directory_path());
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder();

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(std::string_view name) const { return path_ / name; }
  // Writes a whole file and returns its path.
  std::filesystem::path write(std::string_view name, std::span<const std::byte> bytes) const;
  std::filesystem::path write(std::string_view name, std::string_view text) const;

 private:
  std::filesystem::path path_;
};

std::vector<std::byte> read_file(const std::filesystem::path& path);

}  // namespace penstock::test
