// SPDX-License-Identifier: Apache-2.0
// What differs between versions of the HIP runtime. Each row comes from the runtime's source or from reports of its
// users; the self-test measures the ones that it can.
#pragma once

#include <cstdint>
#include <string>

namespace penstock {

enum class HipSupport : std::uint8_t {
  refused,      // Its structures or its functions are not those that we know.
  without_vmm,  // Works, but memory can't be shared or taken back page by page.
  full,
};
enum class HipImport : std::uint8_t {
  by_pointer,  // hipMemImportFromShareableHandle takes the address of the descriptor,
  by_value,    // or the descriptor itself.
  by_trial,  // Not known. The pointer goes first: an old runtime would dereference a small number and die, a new
             // one takes the address for a descriptor that does not exist and says so.
};

struct HipQuirks {
  HipSupport support = HipSupport::refused;
  std::string why;  // Of anything but `full`.
  HipImport import = HipImport::by_trial;
  // Unmapping leaves pages that a stray access may touch: the range is to be made inaccessible by hand.
  bool unmap_leaves_access = true;
  // Unmap and release give nothing back until the address range is freed, so that a client can't keep its addresses.
  bool memory_returns_with_range = false;
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

}  // namespace penstock
