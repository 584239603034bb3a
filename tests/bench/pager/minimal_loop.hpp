// SPDX-License-Identifier: Apache-2.0
// The least that a load into frames can be: direct reads of one size, a fixed number of bytes in flight, no plan, no
// check of the page cache, no page table, nobody else to serve.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "dataplane/io/checkpoint_file.hpp"
#include "dataplane/io/uring_reader.hpp"
#include "tests/bench/pager/bench_device.hpp"

namespace penstock::bench {

class MinimalLoop {
 public:
  MinimalLoop(std::uint64_t bytes, std::uint64_t read_bytes, std::uint64_t in_flight);

  // Bytes a second of one pass over the file, into frames that were populated before.
  double rate(const CheckpointFile& file);

 private:
  std::byte* place(std::uint64_t offset);
  double pass(FileId file, std::uint64_t bytes);

  std::uint64_t read_bytes_;
  std::uint64_t depth_;
  BenchDevice device_;
  std::unique_ptr<FileReader> reader_;
  std::vector<FrameId> frames_;
};

}  // namespace penstock::bench
