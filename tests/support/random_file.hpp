// SPDX-License-Identifier: Apache-2.0
// Files of random bytes, and what the page cache holds of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <vector>

namespace penstock::test {

std::vector<std::byte> random_bytes(std::uint64_t bytes, std::uint64_t seed);
// Writes the whole file and makes it durable, so that its pages can be dropped.
void write_durably(const std::filesystem::path& path, const std::vector<std::byte>& bytes);
// Takes the file's pages out of the page cache. They must not be mapped.
void drop_from_page_cache(const std::filesystem::path& path);
// Reads the whole file through the page cache.
void bring_into_page_cache(const std::filesystem::path& path);
// How many of the file's pages the page cache holds (mincore over a mapping that touches nothing).
std::uint64_t cached_pages(const std::filesystem::path& path);

}  // namespace penstock::test
