// SPDX-License-Identifier: Apache-2.0
// Any manifest: it is refused, or each of its pages has a read plan that keeps every promise of read_plan.hpp.
#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "dataplane/base/check.hpp"
#include "dataplane/core/read_plan.hpp"
#include "tests/support/plan_check.hpp"

namespace penstock {
namespace {

class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : bytes_(data, size) {}

  bool is_empty() const { return bytes_.empty(); }
  template <class T>
  T take() {
    T value{};
    const std::size_t count = std::min(sizeof(T), bytes_.size());
    if (count > 0) std::memcpy(&value, bytes_.data(), count);
    bytes_ = bytes_.subspan(count);
    return value;
  }
  // Mostly small numbers, now and then any.
  std::uint64_t number() {
    const auto kind = take<std::uint8_t>();
    if (kind < 240) return (std::uint64_t{kind} << 8 | take<std::uint8_t>()) & 0x3fff;
    return take<std::uint64_t>();
  }

 private:
  std::span<const std::uint8_t> bytes_;
};

LayoutPiece piece_from(Input& input, std::uint64_t filled) {
  LayoutPiece piece;
  const auto shape = input.take<std::uint8_t>();
  piece.stored = static_cast<Dtype>(input.take<std::uint8_t>() % 24);
  piece.wanted = (shape & 1) != 0 ? static_cast<Dtype>(input.take<std::uint8_t>() % 24) : piece.stored;
  piece.file = shape >> 1 & 3;
  piece.table_offset = (shape & 8) != 0 ? input.number() : filled + (shape >> 4 & 3) * 4;
  piece.source = {.offset = input.number(), .length = input.number()};
  piece.table_bytes = piece.source.length;
  if ((shape & 1) != 0) {
    // Right as often as not, or the search would hardly meet an accepted conversion.
    const auto size = [](Dtype dtype) {
      return dtype_is_convertible(dtype) ? std::uint64_t{dtype_bits(dtype)} / 8 : std::uint64_t{1};
    };
    piece.table_bytes =
        (shape & 64) != 0 ? input.number() : piece.source.length / size(piece.stored) * size(piece.wanted);
    piece.scale = std::bit_cast<float>(input.take<std::uint32_t>());
    if ((shape & 128) != 0) piece.scale_source = Extent{.offset = input.number(), .length = 4};
  }
  return piece;
}

void check_plans(const PageLayout& layout, std::span<const std::uint64_t> file_bytes) {
  constexpr std::array<ReadLimits, 4> limits = {{
      {.slot_bytes = 4096, .read_bytes_max = 4096, .offset_granule = 512, .memory_granule = 512},
      {.slot_bytes = 16, .read_bytes_max = 64, .offset_granule = 1, .memory_granule = 1},
      {.slot_bytes = 8192, .read_bytes_max = 8192, .offset_granule = 4096, .memory_granule = 4},
      {},
  }};
  ReadPlan plan;
  for (std::uint32_t index = 0; index < layout.pages(); index += layout.pages() / 2 + 1) {
    for (const ReadLimits& limit : limits) {
      for (const bool addressable : {false, true}) {
        plan.clear();
        plan_page(layout, index, file_bytes, limit, addressable, plan);
        CHECK(test::broken_promise(layout, index, file_bytes, limit, addressable, plan).empty());
      }
    }
  }
}

}  // namespace
}  // namespace penstock

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace penstock;
  Input input(data, size);
  std::array<std::uint64_t, 3> file_bytes{};
  for (std::uint64_t& bytes : file_bytes) bytes = input.number();
  const std::uint64_t page_bytes = std::uint64_t{4096} << input.take<std::uint8_t>() % 3;
  std::vector<LayoutPiece> pieces;
  std::uint64_t filled = 0;
  while (!input.is_empty()) {
    pieces.push_back(piece_from(input, filled));
    filled = pieces.back().table_offset + pieces.back().table_bytes;
  }
  const auto layout = PageLayout::assembled(std::move(pieces), file_bytes, page_bytes);
  if (layout) {
    check_plans(*layout, file_bytes);
  } else {
    CHECK(layout.error().kind == FailureKind::invalid_argument);
  }
  return 0;
}
