// SPDX-License-Identifier: Apache-2.0
// Documents that travel in memfds: written once, sealed, mapped read-only by the receiver.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "dataplane/base/mapping.hpp"
#include "dataplane/base/result.hpp"
#include "dataplane/base/unique_fd.hpp"

namespace penstock {

// A memfd with these bytes, sealed against every change. `name` shows in /proc/PID/maps. REQUIRES: not empty.
Result<UniqueFd> make_sealed_blob(const char* name, std::span<const std::byte> bytes);

// Maps a received one. Errc::invalid unless it is a memfd sealed against writing, shrinking and growing and at least
// `bytes` long: only then do the bytes stay as they were checked, and the mapping can't fault. REQUIRES: bytes > 0.
Result<Mapping> map_sealed_blob(int fd, std::uint64_t bytes);

}  // namespace penstock
