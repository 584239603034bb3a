// SPDX-License-Identifier: Apache-2.0
// The device's limit, as fio measures it: io_uring, O_DIRECT, fixed buffers, registered files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace penstock::bench {

struct FioShape {
  std::string block;  // As fio writes it: "512k".
  int depth = 0;
  bool huge_pages = false;  // --iomem=mmaphuge: needs reserved pages.
};

// Bytes a second of one pass over the whole file. Empty when fio is not installed or failed.
std::optional<double> fio_read_rate(const std::filesystem::path& file, std::uint64_t bytes,
                                    const FioShape& shape);

// The shape among the usual ones that is fastest on this file now, by the median of `rounds` interleaved passes.
std::optional<FioShape> fastest_fio_shape(const std::filesystem::path& file, std::uint64_t bytes,
                                          bool huge_pages, int rounds);

}  // namespace penstock::bench
