// SPDX-License-Identifier: Apache-2.0
// A large file of random bytes for benchmarks.
#pragma once

#include <cstdint>
#include <filesystem>

namespace penstock::bench {

// Removed at the end. Random, so that no filesystem or host compresses or shares its blocks.
class BenchFile {
 public:
  // Aborts when the folder lacks the room.
  BenchFile(const std::filesystem::path& folder, std::uint64_t bytes);
  BenchFile(const BenchFile&) = delete;
  BenchFile& operator=(const BenchFile&) = delete;
  ~BenchFile();

  const std::filesystem::path& path() const { return path_; }
  std::uint64_t bytes() const { return bytes_; }

 private:
  std::filesystem::path path_;
  std::uint64_t bytes_;
};

}  // namespace penstock::bench
