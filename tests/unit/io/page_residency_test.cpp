// SPDX-License-Identifier: Apache-2.0
#include "dataplane/io/page_residency.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <array>

#include "dataplane/base/unique_fd.hpp"
#include "tests/support/random_file.hpp"
#include "tests/support/temporary_folder.hpp"

namespace penstock::test {
namespace {

TEST(PageResidency, TellsAnExtentThatIsWhollyCachedFromOneThatIsNot) {
  const TemporaryFolder folder;
  const auto path = folder / "model";
  constexpr std::uint64_t bytes = 64 * 4096 + 100;
  write_durably(path, random_bytes(bytes, 1));
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  PageResidency residency;
  const bool warm = residency.wholly_cached(file.get(), {.offset = 0, .length = bytes});
  if (!residency.available()) GTEST_SKIP() << "requires cachestat(2), kernel 6.5";
  EXPECT_TRUE(warm);
  EXPECT_TRUE(residency.wholly_cached(file.get(), {.offset = 37, .length = 5000}));

  drop_from_page_cache(path);
  if (cached_pages(path) > 0) GTEST_SKIP() << "requires a filesystem whose pages can be dropped";
  EXPECT_FALSE(residency.wholly_cached(file.get(), {.offset = 0, .length = 1}));
  ASSERT_EQ(::posix_fadvise(file.get(), 0, 0, POSIX_FADV_RANDOM), 0);  // No read-ahead beyond the page.
  std::array<std::byte, 1> byte;
  ASSERT_EQ(::pread(file.get(), byte.data(), 1, 8 * 4096), 1);
  EXPECT_TRUE(residency.wholly_cached(file.get(), {.offset = 8 * 4096, .length = 4096}));
  EXPECT_FALSE(residency.wholly_cached(file.get(), {.offset = 8 * 4096 - 1, .length = 4096}));
  EXPECT_FALSE(residency.wholly_cached(file.get(), {.offset = 0, .length = bytes}));
}

TEST(PageResidency, SaysNoForADescriptorThatIsNoFile) {
  PageResidency residency;
  EXPECT_FALSE(residency.wholly_cached(-1, {.offset = 0, .length = 4096}));
  EXPECT_FALSE(residency.wholly_cached(0, {.offset = 0, .length = 0}));
}

}  // namespace
}  // namespace penstock::test
