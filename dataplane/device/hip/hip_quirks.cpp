// SPDX-License-Identifier: Apache-2.0
#include "dataplane/device/hip/hip_quirks.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

namespace penstock {
namespace {

struct Row {
  int from_major, from_minor;
  HipSupport support;
  HipImport import;
  HipReturn memory_returns;
  std::uint32_t descriptors_per_frame;
  bool unmaps_one_by_one, keeps_last_failure;
  const char* why;
};

// Each row holds until the next one begins.
constexpr std::array rows{
    Row{0, 0, HipSupport::refused, HipImport::by_pointer, HipReturn::with_last_use, 1, true, false,
        "before ROCm 6.0 there is no virtual memory management, and 5.2 orders its structures differently"},
    Row{6, 0, HipSupport::without_vmm, HipImport::by_pointer, HipReturn::with_last_use, 1, true, false,
        "before ROCm 6.2 memory can't be exported as a descriptor"},
    Row{6, 2, HipSupport::full, HipImport::by_pointer, HipReturn::with_last_use, 1, true, false, ""},
    Row{7, 0, HipSupport::full, HipImport::by_pointer, HipReturn::with_last_use, 1, false, true, ""},
    Row{7, 1, HipSupport::full, HipImport::by_value, HipReturn::with_last_use, 1, false, true, ""},
    Row{7, 2, HipSupport::without_vmm, HipImport::by_value, HipReturn::with_range, 1, false, true,
        "ROCm 7.2 gives memory back only when its address range is freed"},
    Row{7, 3, HipSupport::full, HipImport::by_value, HipReturn::with_last_use, 2, false, true, ""},
};

// A page that is evicted would stay used, as long as its table is open.
static_assert(std::ranges::none_of(rows, [](const Row& row) {
  return row.memory_returns == HipReturn::with_range && row.support == HipSupport::full;
}));

constexpr std::array<std::string_view, 3> proven{"gfx90a", "gfx942", "gfx1100"};

}  // namespace

bool is_proven(std::string_view architecture) {
  return std::ranges::find(proven, architecture) != proven.end();
}

HipVersion hip_version(int number) {
  return {.major = number / 10'000'000, .minor = number / 100'000 % 100, .patch = number % 100'000};
}

std::string to_text(const HipVersion& version) {
  return fmt::format("{}.{}.{}", version.major, version.minor, version.patch);
}

HipQuirks hip_quirks(const HipVersion& version) {
  const Row* last = rows.data();
  for (const Row& row : rows) {
    const bool reached = version.major > row.from_major ||
                         (version.major == row.from_major && version.minor >= row.from_minor);
    if (reached) last = &row;
  }
  return {.support = last->support,
          .why = last->why,
          .import = last->import,
          .memory_returns = last->memory_returns,
          .unmaps_one_by_one = last->unmaps_one_by_one,
          .keeps_last_failure = last->keeps_last_failure,
          .descriptors_per_frame = last->descriptors_per_frame};
}

}  // namespace penstock
