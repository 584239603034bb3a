// SPDX-License-Identifier: Apache-2.0
#include "dataplane/io/page_residency.hpp"

#include <cerrno>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>

#include "dataplane/base/unique_fd.hpp"
#include "tests/support/in_child.hpp"
#include "tests/support/random_file.hpp"
#include "tests/support/temporary_folder.hpp"

namespace penstock::test {
namespace {

constexpr std::uint64_t file_bytes = 64 * 4096 + 100;

// "told", and of each extent that is asked for whether it is cached, 1 or 0.
std::string story(const std::filesystem::path& path) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  const PageResidency residency = PageResidency::of(file.get(), file_bytes);
  if (!residency.available()) return "nothing";
  std::string told = "told ";
  const auto ask = [&](std::uint64_t offset, std::uint64_t length) {
    told += residency.wholly_cached({.offset = offset, .length = length}) ? '1' : '0';
  };
  bring_into_page_cache(path);
  ask(0, file_bytes);
  ask(37, 5000);
  drop_from_page_cache(path);
  if (cached_pages(path) > 0) return "nothing dropped";
  ask(0, 1);
  if (::posix_fadvise(file.get(), 0, 0, POSIX_FADV_RANDOM) != 0) return "read-ahead";
  std::array<std::byte, 1> byte;
  if (::pread(file.get(), byte.data(), 1, 8 * 4096) != 1) return "no byte";
  ask(8 * 4096, 4096);
  ask(8 * 4096 - 1, 4096);
  ask(0, file_bytes);
  ask(file_bytes, 8192);
  return told;
}

class PageResidencyTest : public testing::Test {
 protected:
  void SetUp() override { write_durably(path_, random_bytes(file_bytes, 1)); }
  void expect_exact(const std::string& told) {
    if (told == "nothing dropped") GTEST_SKIP() << "requires a filesystem whose pages can be dropped";
    EXPECT_EQ(told, "told 1101000");
  }
  const TemporaryFolder folder_;
  const std::filesystem::path path_ = folder_ / "model";
};

TEST_F(PageResidencyTest, TellsAnExtentThatIsWhollyCachedFromOneThatIsNot) { expect_exact(story(path_)); }

TEST_F(PageResidencyTest, AsksMincoreWhereTheKernelLacksTheBetterCallOrAFilterRefusesIt) {
  for (const int error : {ENOSYS, EPERM}) {
    const std::string told = in_child([&] {
      deny_system_calls(451, 451, error);  // cachestat(2)
      return story(path_);
    });
    expect_exact(told);
  }
}

TEST_F(PageResidencyTest, DoesNotBelieveMincoreAboutAFileOfAnother) {
  if (::geteuid() != 0) GTEST_SKIP() << "requires root, to take rights away";
  std::filesystem::permissions(folder_.path(), std::filesystem::perms(0755));
  std::filesystem::permissions(path_, std::filesystem::perms(0644));
  const std::string told = in_child([&] {
    drop_rights(64 * 1024);
    deny_system_calls(451, 451, ENOSYS);
    return story(path_);
  });
  EXPECT_EQ(told, "nothing");
}

TEST(PageResidency, SaysNoForADescriptorThatIsNoFile) {
  EXPECT_FALSE(PageResidency::of(-1, 4096).wholly_cached({.offset = 0, .length = 4096}));
  EXPECT_FALSE(PageResidency().wholly_cached({.offset = 0, .length = 4096}));
}

}  // namespace
}  // namespace penstock::test
