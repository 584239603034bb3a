// SPDX-License-Identifier: Apache-2.0
// The header of an open checkpoint file.
#pragma once

#include "dataplane/base/failure.hpp"
#include "dataplane/core/checkpoint_index.hpp"
#include "dataplane/io/checkpoint_file.hpp"

namespace penstock {

// Reads the header through the page cache, parses it, and makes sure that the file is still the one that was
// opened. Blocks; for the command line and opener threads. The one way from a file to a verdict about it.
Outcome<CheckpointIndex> read_index_of(const CheckpointFile& file);

}  // namespace penstock
