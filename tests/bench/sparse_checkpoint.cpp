// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/sparse_checkpoint.hpp"

#include <fstream>

namespace penstock::bench {

std::string write_sparse_checkpoint(const std::filesystem::path& folder, std::uint64_t bytes) {
  const std::uint64_t data = bytes - 4096;
  std::string header = "{\"t\":{\"dtype\":\"U8\",\"shape\":[" + std::to_string(data) +
                       "],\"data_offsets\":[0," + std::to_string(data) + "]}}";
  header.resize(4096 - 8, ' ');
  const std::uint64_t length = header.size();
  const std::string path = folder / "sparse.safetensors";
  {
    std::ofstream file(path, std::ios::binary);
    file.write(reinterpret_cast<const char*>(&length), sizeof length);
    file.write(header.data(), static_cast<std::streamsize>(header.size()));
  }
  std::filesystem::resize_file(path, bytes);
  return path;
}

}  // namespace penstock::bench
