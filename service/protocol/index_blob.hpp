// SPDX-License-Identifier: Apache-2.0
// The index of a checkpoint as the document that clients get (PROTOCOL.md, section 8).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "dataplane/base/result.hpp"
#include "dataplane/core/checkpoint_index.hpp"
#include "service/protocol/blob_wire.h"
#include "service/protocol/wire.h"

namespace penstock {

struct IndexFile {
  std::string name;
  std::uint64_t bytes = 0;
  std::uint64_t data_offset = 0;  // First byte after the header.
};

struct IndexContent {
  std::string format;  // "safetensors"
  std::vector<IndexFile> files;
  std::vector<TensorEntry> tensors;  // Sorted by file, then offset.
  std::vector<std::pair<std::string, std::string>> metadata;
};

// Errc::invalid when a list, a name or the whole is too large for the document, or the tensors are not sorted.
Result<std::vector<std::byte>> build_index_blob(const IndexContent& content);

// Reads `blob` in place. Errc::corrupt with the broken rule as Error::operation. Allocates no more than a small multiple
// of the blob's size. Names are not compared with each other.
Result<IndexContent> parse_index_blob(std::span<const std::byte> blob);

}  // namespace penstock
