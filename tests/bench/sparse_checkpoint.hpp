// SPDX-License-Identifier: Apache-2.0
// A checkpoint of one tensor whose bytes are a hole of the file: it takes no room, and reading it is not what is measured.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace penstock::bench {

// `bytes` with the header, which takes 4096 of them. Returns the path.
std::string write_sparse_checkpoint(const std::filesystem::path& folder, std::uint64_t bytes);

}  // namespace penstock::bench
