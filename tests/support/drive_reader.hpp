// SPDX-License-Identifier: Apache-2.0
// Runs readers and streams to their answers, waiting on their descriptors as a thread loop does, with a bound.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "dataplane/io/file_reader.hpp"
#include "dataplane/io/read_stream.hpp"

namespace penstock::test {

// False when the descriptor stays silent that long.
bool wait_readable(int fd, int milliseconds);

// Waits for `count` completions. Aborts when one does not come within 20 s.
std::vector<ReadDone> reap_all(FileReader& reader, std::size_t count);
// One op alone, and its result.
std::int32_t read_once(FileReader& reader, const ReadOp& op);

// Polls until every pushed request is answered. Aborts when nothing happens for 20 s.
std::vector<ReadStream::Answer> drain(ReadStream& stream);

// Pushes the whole file as bulk requests of `step` bytes, each end rounded up to `granule`. The tag is the offset.
// REQUIRES: `destination` has room for the rounded end.
void push_whole(ReadStream& stream, StreamFile file, std::uint64_t file_bytes, std::uint64_t step,
                std::uint32_t granule, std::span<std::byte> destination);

}  // namespace penstock::test
