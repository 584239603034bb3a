// SPDX-License-Identifier: Apache-2.0
#include "tests/support/random_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "dataplane/base/check.hpp"
#include "dataplane/base/mapping.hpp"
#include "dataplane/base/unique_fd.hpp"
#include "dataplane/base/units.hpp"
#include "tests/support/random.hpp"
#include "tests/support/temporary_folder.hpp"

namespace penstock::test {

std::vector<std::byte> random_bytes(std::uint64_t bytes, std::uint64_t seed) {
  Random random(seed);
  std::vector<std::byte> result(bytes);
  for (std::uint64_t at = 0; at < bytes; at += sizeof(std::uint64_t)) {
    const std::uint64_t word = random.next();
    std::memcpy(result.data() + at, &word, std::min<std::uint64_t>(sizeof word, bytes - at));
  }
  return result;
}

void write_durably(const std::filesystem::path& path, const std::vector<std::byte>& bytes) {
  const UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  CHECK(file);
  for (std::size_t at = 0; at < bytes.size();) {
    const ssize_t written = ::write(file.get(), bytes.data() + at, bytes.size() - at);
    CHECK(written > 0);
    at += static_cast<std::size_t>(written);
  }
  CHECK(::fsync(file.get()) == 0);
}

void drop_from_page_cache(const std::filesystem::path& path) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  CHECK(file);
  CHECK(::fsync(file.get()) == 0);
  CHECK(::posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED) == 0);
}

void bring_into_page_cache(const std::filesystem::path& path) { (void)read_file(path); }

std::uint64_t cached_pages(const std::filesystem::path& path) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  CHECK(file);
  const std::uint64_t bytes = std::filesystem::file_size(path);
  const auto mapping = Mapping::shared(file.get(), bytes, Access::read);
  CHECK(mapping);
  std::vector<unsigned char> present(divide_up(bytes, small_page_bytes));
  CHECK(::mincore(mapping->data(), bytes, present.data()) == 0);
  std::uint64_t count = 0;
  for (const unsigned char page : present) count += page & 1u;
  return count;
}

}  // namespace penstock::test
