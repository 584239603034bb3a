// SPDX-License-Identifier: Apache-2.0
// What differs between versions of the HIP runtime. Each row comes from the runtime's source or from reports of its
// users. A runtime that does not tell its version is refused. Whether memory comes back only with its address range is
// measured by the self-test too, whatever the version.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace penstock {

enum class HipSupport : std::uint8_t {
  refused,      // Its structures or its functions are not those that we know.
  without_vmm,  // Works, but memory can't be shared or taken back page by page.
  full,
};
enum class HipImport : std::uint8_t {
  by_pointer,  // hipMemImportFromShareableHandle takes the address of the descriptor,
  by_value,    // or the descriptor itself.
};

enum class HipReturn : std::uint8_t {
  with_last_use,  // Memory is free when nothing maps or holds it,
  with_range,  // or only when the whole address range is freed that it was mapped in: a VA group (decision 18).
};

struct HipQuirks {
  HipSupport support = HipSupport::refused;
  std::string why;  // Of anything but `full`.
  HipImport import = HipImport::by_pointer;
  HipReturn memory_returns = HipReturn::with_last_use;  // `full` is never with_range.
  // Unmapping leaves pages that a stray access may touch: the range is to be made inaccessible by hand.
  bool unmap_leaves_access = true;
  // hipMemUnmap takes one mapping, and the range of several is refused.
  bool unmaps_one_by_one = false;
  // hipGetLastError gives the thread's last failure, and no success clears it. Else it gives the last call's answer.
  bool keeps_last_failure = true;
  // Allocations of some versions hold one of their own besides the exported one.
  std::uint32_t descriptors_per_frame = 1;
};

struct HipVersion {
  int major = 0, minor = 0, patch = 0;
};
// Of hipRuntimeGetVersion's number.
HipVersion hip_version(int number);
std::string to_text(const HipVersion& version);
HipQuirks hip_quirks(const HipVersion& version);
// Whether users tell that sharing works on this architecture ("gfx942"). Of the others there are open reports of faults and
// of zeros that are read (gfx1201), or none at all.
bool is_proven(std::string_view architecture);

}  // namespace penstock
