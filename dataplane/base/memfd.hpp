// SPDX-License-Identifier: Apache-2.0
// Anonymous files that travel between processes, and their seals.
#pragma once

#include <cstdint>

#include "dataplane/base/result.hpp"
#include "dataplane/base/unique_fd.hpp"

namespace penstock {

// A file of `bytes` zero bytes, sealed against shrinking and growing, so that no holder of the descriptor can make
// another's mapping fault. More seals may be added later. `name` shows in /proc/PID/maps.
Result<UniqueFd> create_memfd(const char* name, std::uint64_t bytes);
// The same, but only sealed against growing: its owner gives the end back with shrink(). A mapping beyond the new end
// faults, so nobody may touch what he gave up.
Result<UniqueFd> create_shrinkable_memfd(const char* name, std::uint64_t bytes);
Result<> shrink(int fd, std::uint64_t bytes);
// `seals`: F_SEAL_* bits. Adding a seal that is there already is no error.
Result<> add_seals(int fd, int seals);
// The F_SEAL_* bits of a memfd; Errc::invalid for any other kind of file. Use it before trusting a received one.
Result<int> seals_of(int fd);
// Size in bytes, from fstat.
Result<std::uint64_t> size_of(int fd);

}  // namespace penstock
