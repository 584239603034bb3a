// SPDX-License-Identifier: Apache-2.0
// Chooses the best reader that this machine allows: io_uring with registered slots, io_uring without, threads
// with pread. Each rung costs speed, never correctness.
#pragma once

#include <memory>
#include <string>

#include "dataplane/base/failure.hpp"
#include "dataplane/io/file_reader.hpp"
#include "dataplane/io/pinned_ring.hpp"
#include "dataplane/io/reader_options.hpp"

namespace penstock {

struct ReaderReport {
  std::string backend;  // As FileReader::backend() says.
  // Why it is not the best rung, or the ring not locked in huge pages; one line, or empty.
  std::string reason;
  bool registered = false;  // The slots are registered with io_uring.
  std::uint64_t ring_bytes = 0;
  std::uint64_t huge_bytes = 0;  // Of them in 2 MiB pages.
  bool locked = false;           // They can't be swapped out: locked or registered.
};

struct OpenedReader {
  std::unique_ptr<FileReader> reader;
  ReaderReport report;
};

// `ring` may be null, and must outlive the reader. Call it on the thread that will use the reader. Fails when
// options.io demands io_uring and it is refused, or when not even threads can be had.
Outcome<OpenedReader> open_reader(const ReaderOptions& options, const PinnedRing* ring);

}  // namespace penstock
