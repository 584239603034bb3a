// SPDX-License-Identifier: Apache-2.0
// What may be chosen about reading, and limits that hold for every reader.
#pragma once

#include <cstdint>

namespace penstock {

inline constexpr std::uint64_t read_bytes_limit = 0x7ffff000;  // The kernel moves no more in one read.

struct ReaderOptions {
  enum class Io : std::uint8_t { automatic, uring, pread };

  Io io = Io::automatic;            // uring: fail without it.
  std::uint32_t queue_depth = 64;   // Reads in flight, at most; 1 ... 4096
  std::uint32_t files_max = 1024;   // 1 ... 4096
  bool register_buffers = true;     // Of the ring, where the limits allow it.
  std::uint32_t pread_threads = 8;  // Of a PreadReader: its reads in flight, in truth.
  std::uint32_t copy_threads = 2;   // Of a UringReader: reads through the page cache, which copy.
};

}  // namespace penstock
