// SPDX-License-Identifier: Apache-2.0
#include "service/cli/checkpoint_plan.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "dataplane/base/units.hpp"

namespace penstock {
namespace {

constexpr std::size_t tensors_max = 1'000'000;

// Names of shapes are plain ASCII without quotes: nothing needs escaping.
std::string header_of(const Shape& shape, std::uint64_t seed, const std::vector<ShapeTensor>& tensors) {
  std::string json = fmt::format(
      R"({{"__metadata__":{{"format":"pt","made_by":"penstock make-checkpoint","shape":"{}","seed":"{}"}})",
      shape.name, seed);
  std::uint64_t offset = 0;
  for (const ShapeTensor& tensor : tensors) {
    const std::uint64_t end = offset + tensor.bytes();
    json += fmt::format(R"(,"{}":{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})", tensor.name,
                        dtype_name(tensor.dtype), fmt::join(tensor.shape, ","), offset, end);
    offset = end;
  }
  json += "}";
  json.resize(round_up(json.size(), 8), ' ');
  std::string header;
  for (int byte = 0; byte < 8; ++byte) header += static_cast<char>(json.size() >> (8 * byte));
  return header + json;
}

void cut_to(ShapeTensor& tensor, std::uint64_t bytes) {
  if (tensor.shape.empty() || bytes >= tensor.bytes()) return;
  const std::uint64_t row_bytes = tensor.bytes() / tensor.shape[0];
  tensor.shape[0] = divide_up(bytes, row_bytes);
}

Outcome<std::vector<ShapeTensor>> scaled(const std::vector<ShapeTensor>& full, std::uint64_t data_bytes) {
  std::vector<ShapeTensor> taken;
  std::uint64_t bytes = 0;
  for (std::size_t copy = 0; bytes < data_bytes; ++copy) {
    for (const ShapeTensor& tensor : full) {
      if (bytes >= data_bytes) break;
      if (taken.size() == tensors_max) {
        return fail(
            FailureKind::invalid_argument,
            fmt::format("{} bytes would need more than {} tensors of this shape", data_bytes, tensors_max),
            "take a larger shape");
      }
      taken.push_back(tensor);
      if (copy > 0) taken.back().name = fmt::format("copy{}.{}", copy, tensor.name);
      cut_to(taken.back(), data_bytes - bytes);
      bytes += taken.back().bytes();
    }
  }
  return taken;
}

}  // namespace

Outcome<CheckpointPlan> plan_checkpoint(const Shape& shape, std::uint64_t seed,
                                        std::optional<std::uint64_t> data_bytes) {
  CheckpointPlan plan;
  plan.tensors = shape.tensors();
  std::ranges::sort(plan.tensors, [](const ShapeTensor& a, const ShapeTensor& b) {
    return std::tie(b.dtype, a.name) < std::tie(a.dtype, b.name);
  });
  if (data_bytes) {
    auto fewer = scaled(plan.tensors, *data_bytes);
    if (!fewer) return tl::unexpected(std::move(fewer.error()));
    plan.tensors = *std::move(fewer);
  }
  plan.header = header_of(shape, seed, plan.tensors);
  plan.file_bytes = plan.header.size();
  for (const ShapeTensor& tensor : plan.tensors) plan.file_bytes += tensor.bytes();
  return plan;
}

}  // namespace penstock
