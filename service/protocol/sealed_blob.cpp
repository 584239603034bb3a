// SPDX-License-Identifier: Apache-2.0
#include "service/protocol/sealed_blob.hpp"

#include <cerrno>
#include <cstring>

#include <fcntl.h>

#include "dataplane/base/check.hpp"
#include "dataplane/base/memfd.hpp"

namespace penstock {

Result<UniqueFd> make_sealed_blob(const char* name, std::span<const std::byte> bytes) {
  CHECK(!bytes.empty());
  UniqueFd fd = TRY(create_memfd(name, bytes.size()));
  {
    // F_SEAL_WRITE needs every writable mapping gone.
    const Mapping mapping = TRY(Mapping::shared(fd.get(), bytes.size(), Access::read_write));
    std::memcpy(mapping.data(), bytes.data(), bytes.size());
  }
  TRY(add_seals(fd.get(), F_SEAL_WRITE | F_SEAL_SEAL));
  return fd;
}

Result<Mapping> map_sealed_blob(int fd, std::uint64_t bytes) {
  CHECK(bytes > 0);
  constexpr int needed = F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW;
  const int seals = TRY(seals_of(fd));
  if ((seals & needed) != needed) return Error{Errc::invalid, 0, "the memfd is not sealed"};
  if (TRY(size_of(fd)) < bytes) return Error{Errc::invalid, 0, "the memfd is too short"};
  return Mapping::shared(fd, bytes, Access::read);
}

}  // namespace penstock
