// SPDX-License-Identifier: Apache-2.0
// What make-checkpoint will write: the header's bytes, and the tensors behind it in the order of the file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dataplane/base/failure.hpp"
#include "service/cli/shapes.hpp"

namespace penstock {

struct CheckpointPlan {
  std::string header;  // Length field, JSON and padding: all bytes before the data.
  std::vector<ShapeTensor> tensors;
  std::uint64_t file_bytes = 0;
};

// Orders the tensors as the reference writer does: large elements first, then by name.
//
// With `data_bytes` the plan takes tensors in that order until their bytes reach it, and cuts the last one's first
// dimension to as few rows as suffice, so that the file is larger than `data_bytes` by the header and at most one row.
// Where the shape is too small it starts again, with the names prefixed by "copy1.", "copy2." and so on. Refuses
// (invalid_argument) what would need more than a million tensors.
Outcome<CheckpointPlan> plan_checkpoint(const Shape& shape, std::uint64_t seed,
                                        std::optional<std::uint64_t> data_bytes);

}  // namespace penstock
