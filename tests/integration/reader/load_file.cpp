// SPDX-License-Identifier: Apache-2.0
#include "tests/integration/reader/load_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "dataplane/base/check.hpp"
#include "dataplane/base/sha256.hpp"
#include "dataplane/base/units.hpp"
#include "dataplane/io/pread_reader.hpp"
#include "tests/support/drive_reader.hpp"

namespace penstock::test {

Loaded load_through_slots(ReadStream& stream, PinnedRing& ring, const std::shared_ptr<CheckpointFile>& file) {
  const auto added = stream.add(file);
  CHECK(added);
  const std::uint64_t file_bytes = file->identity().bytes;
  const std::uint64_t granule = std::max(file->direct().offset_granule, 1u);
  std::vector<std::byte> content(file_bytes);
  Loaded loaded;
  for (std::uint64_t at = 0; at < file_bytes;) {
    // A round of as many extents as there are slots; the tag names slot and extent.
    const std::uint64_t round_start = at;
    for (auto slot = ring.take(); slot && at < file_bytes; slot = ring.take()) {
      const std::uint64_t needed = std::min(ring.slot_bytes(), file_bytes - at);
      std::fill_n(ring.address(*slot), ring.slot_bytes(), std::byte{0xa5});
      stream.push({.file = *added,
                   .extent = {.offset = at, .length = round_up(needed, granule)},
                   .needed_bytes = needed,
                   .destination = ring.address(*slot),
                   .slot = *slot,
                   .tag = (at - round_start) / ring.slot_bytes() << 16 | raw(*slot)});
      at += needed;
      if (at == file_bytes) break;
    }
    for (const ReadStream::Answer& answer : drain(stream)) {
      const SlotId slot{static_cast<std::uint16_t>(answer.tag)};
      const std::uint64_t offset = round_start + (answer.tag >> 16) * ring.slot_bytes();
      const std::uint64_t needed = std::min(ring.slot_bytes(), file_bytes - offset);
      std::copy_n(ring.address(slot), needed, content.begin() + static_cast<std::ptrdiff_t>(offset));
      ring.give_back(slot);
      if (!answer.ok && loaded.failure.empty()) loaded.failure = describe(answer, file_bytes).message;
    }
    if (!loaded.failure.empty()) break;
  }
  stream.remove(*added);
  if (loaded.failure.empty()) loaded.sha256 = to_hex(sha256(content));
  loaded.counters = stream.counters();
  return loaded;
}

Opened open_stream(const ReaderOptions& options, const PinnedRingOptions& ring_options) {
  Opened opened;
  auto ring = PinnedRing::make(ring_options);
  CHECK(ring);
  opened.ring = *std::move(ring);
  auto reader = open_reader(options, opened.ring.get());
  if (!reader) {
    opened.failure = reader.error().message;
    return opened;
  }
  opened.report = reader->report;
  auto stream =
      ReadStream::make(std::move(reader->reader), [options] { return PreadReader::open(options); }, {});
  CHECK(stream);
  opened.stream = *std::move(stream);
  return opened;
}

std::string load_and_tell(const std::shared_ptr<CheckpointFile>& file, const ReaderOptions& options) {
  const Opened opened = open_stream(options);
  if (opened.stream == nullptr) return "failure=" + opened.failure;
  const Loaded loaded = load_through_slots(*opened.stream, *opened.ring, file);
  return fmt::format("backend={} sha256={} reason={}{}", opened.report.backend, loaded.sha256,
                     opened.report.reason, loaded.failure);
}

}  // namespace penstock::test
