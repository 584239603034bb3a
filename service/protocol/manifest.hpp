// SPDX-License-Identifier: Apache-2.0
// The manifest of an assembled table: canonical bytes, and the key under which such a table is shared (PROTOCOL.md,
// section 8).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "dataplane/base/result.hpp"
#include "dataplane/base/sha256.hpp"
#include "dataplane/core/page_layout.hpp"
#include "service/protocol/blob_wire.h"

namespace penstock {

struct Manifest {
  std::uint32_t files = 0;          // LayoutPiece::file is below it.
  std::vector<LayoutPiece> pieces;  // Sorted by table offset.
};

// Errc::invalid when a piece can't be said in the canonical form: unsorted, wrapping, not finite.
Result<std::vector<std::byte>> build_manifest(const Manifest& manifest);

// Errc::corrupt with the broken rule as Error::operation. Accepts canonical bytes alone. What the pieces mean (whole
// elements, convertible dtypes, sources inside their files) is checked by PageLayout::assembled.
Result<Manifest> parse_manifest(std::span<const std::byte> bytes);

struct ManifestFile {  // Identity of a checkpoint file.
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::uint64_t bytes = 0;
  std::int64_t mtime_ns = 0;
  std::int64_t ctime_ns = 0;
};
struct ManifestDevice {
  std::string_view id;
  std::uint64_t frame_bytes = 0;
  std::uint64_t tensor_alignment = 0;
};
// REQUIRES: canonical bytes, one identity a file, an id of at most PSTW_DEVICE_ID_BYTES_MAX bytes.
Sha256Digest manifest_key(std::span<const std::byte> manifest, std::span<const ManifestFile> files,
                          const ManifestDevice& device);

}  // namespace penstock
