// SPDX-License-Identifier: Apache-2.0
// How many bytes the service may still allocate before the tightest cgroup, or the machine, is at its limit.
// Implemented by the cgroup readers in bpf/; a number in tests. Asked before each frame is made (D7).
#pragma once

#include <cstdint>

namespace penstock {

class HeadroomSource {
 public:
  virtual ~HeadroomSource() = default;
  // Bytes; reclaimable page cache counts as free, shmem does not. Callable from any thread.
  virtual std::uint64_t headroom_bytes() = 0;
  // The tightest limit over all ancestors, or the machine's memory when there is none. Bytes.
  virtual std::uint64_t limit_bytes() = 0;
  // Which limit leaves the least: another number when it is another cgroup's, or the machine's memory. Any thread.
  virtual std::uint64_t limit_source() { return 0; }
  // What the caller took (positive) or gave back (negative) since it asked. A source that answers from a reading a
  // few milliseconds old corrects it by this, so that a burst of frames cannot run past the limit. Any thread.
  virtual void account(std::int64_t bytes) { static_cast<void>(bytes); }
  // Something has happened to memory: the next answer comes from a reading that is not older than this call. Any thread.
  virtual void read_anew() {}
};

}  // namespace penstock
