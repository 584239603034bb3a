// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/bench_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "dataplane/base/check.hpp"
#include "dataplane/base/unique_fd.hpp"
#include "dataplane/base/units.hpp"
#include "tests/support/random_file.hpp"

namespace penstock::bench {

BenchFile::BenchFile(const std::filesystem::path& folder, std::uint64_t bytes)
    : path_(folder / fmt::format("penstock-bench-{}", ::getpid())), bytes_(bytes) {
  const UniqueFd file(::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  CHECK(file);
  for (std::uint64_t at = 0; at < bytes;) {
    const auto part = test::random_bytes(std::min(16 * mib, bytes - at), at);
    CHECK(::pwrite(file.get(), part.data(), part.size(), static_cast<off_t>(at)) ==
          static_cast<ssize_t>(part.size()));
    at += part.size();
  }
  CHECK(::fsync(file.get()) == 0);
  test::drop_from_page_cache(path_);
}

BenchFile::~BenchFile() {
  std::error_code ignored;
  std::filesystem::remove(path_, ignored);
}

}  // namespace penstock::bench
