// SPDX-License-Identifier: Apache-2.0
// Writes a planned checkpoint and its checksums.
#pragma once

#include <cstdint>
#include <string>

#include "dataplane/base/failure.hpp"
#include "dataplane/base/sha256.hpp"
#include "service/cli/checkpoint_plan.hpp"
#include "service/cli/interruption.hpp"
#include "service/cli/new_file.hpp"

namespace penstock {

struct WrittenCheckpoint {
  Sha256Digest file_digest{};
  std::string digest_lines;  // "<sha256>  <name>\n" for each tensor, in the order of the file.
};

// Fills `file`, on two threads: this one makes content and hashes tensors, the other hashes the file and writes. Does
// not publish. `cancelled` once an interruption is wanted.
Outcome<WrittenCheckpoint> write_checkpoint(const CheckpointPlan& plan, std::uint64_t seed, NewFile& file,
                                            const Interruption& interruption);

}  // namespace penstock
