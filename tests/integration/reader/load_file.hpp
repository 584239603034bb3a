// SPDX-License-Identifier: Apache-2.0
// Loads a whole file through a ReadStream, as a service would: ring, ladder, stream, slots.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "dataplane/io/open_reader.hpp"
#include "dataplane/io/read_stream.hpp"

namespace penstock::test {

struct Loaded {
  std::string sha256;   // Of the bytes that arrived; empty when the load failed.
  std::string failure;  // Text of the first failed answer.
  ReadCounters counters;
};

// Reads extents of a slot each, through the ring's slots, which are poisoned with 0xA5 before each read.
Loaded load_through_slots(ReadStream& stream, PinnedRing& ring, const std::shared_ptr<CheckpointFile>& file);

// A ring of 16 slots of 64 KiB, the best reader that the system allows, and a fallback.
struct Opened {
  std::unique_ptr<PinnedRing> ring;
  ReaderReport report;
  std::string failure;
  std::unique_ptr<ReadStream> stream;
};
Opened open_stream(const ReaderOptions& options = {},
                   const PinnedRingOptions& ring_options = {
                       .slot_bytes = 64 * 1024, .slots = 16, .reserved_huge_pages = false});

// "backend=... sha256=... reason=..." of a load with everything by default: what a child tells its parent.
std::string load_and_tell(const std::shared_ptr<CheckpointFile>& file, const ReaderOptions& options = {});

}  // namespace penstock::test
