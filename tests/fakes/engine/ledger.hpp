// SPDX-License-Identifier: Apache-2.0
// How much of each device is in use. One file for all processes that share a machine ($PENSTOCK_FAKE_LEDGER); without
// it each process has a machine of its own. An entry counts while its frame lives anywhere, so that a killed process
// needs no clean-up, and a descriptor in a socket's queue counts.
//
// The file is locked for each operation; the engine's lock is held around all of them.
#pragma once

#include <cstdint>
#include <set>

#include "dataplane/base/unique_fd.hpp"
#include "tests/fakes/engine/frame.hpp"

namespace penstock::fake {

class Ledger {
 public:
  static Ledger& instance();

  enum class Booking { made, no_room, no_descriptor };
  // Makes a frame where the device has room for it.
  Booking make(FrameInfo& info, UniqueFd& fd);
  // An import: counted if it is not yet (the maker's ledger may be another).
  void count(const FrameInfo& info);
  std::uint64_t used_bytes(int device);
  std::uint64_t living_frame_count(int device);

 private:
  struct Slot;
  struct Table;
  class Locked;

  Ledger();
  std::set<std::uint64_t> living() const;
  // Drops the entries of frames that nobody holds any more.
  void sweep();
  void insert(const FrameInfo& info);

  UniqueFd file_;
  Table* table_;  // Shared, and never unmapped.
};

}  // namespace penstock::fake
