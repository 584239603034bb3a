// SPDX-License-Identifier: Apache-2.0
#include "service/cli/new_file.hpp"

#include <algorithm>
#include <csignal>
#include <filesystem>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dataplane/base/unique_fd.hpp"
#include "tests/support/temporary_folder.hpp"

namespace penstock {
namespace {

namespace fs = std::filesystem;

std::size_t entries(const test::TemporaryFolder& folder) {
  return static_cast<std::size_t>(
      std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()));
}

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

TEST(NewFile, HasItsNameOnlyWhenComplete) {
  const test::TemporaryFolder folder;
  {
    auto file = NewFile::create(folder / "a", Existing::kept);
    ASSERT_TRUE(file);
    ASSERT_TRUE(file->write(bytes_of("half")));
    EXPECT_FALSE(fs::exists(folder / "a"));
    ASSERT_TRUE(file->write(bytes_of(" and half")));
    ASSERT_TRUE(file->publish());
    EXPECT_EQ(fs::file_size(folder / "a"), 13u);
  }
  EXPECT_EQ(entries(folder), 1u);
}

TEST(NewFile, LeavesNothingWhenAbandoned) {
  const test::TemporaryFolder folder;
  {
    auto file = NewFile::create(folder / "a", Existing::kept);
    ASSERT_TRUE(file->reserve(4096));
  }
  EXPECT_EQ(entries(folder), 0u);
}

TEST(NewFile, LeavesNothingWhenItsWriterIsKilled) {
  const test::TemporaryFolder folder;
  const UniqueFd nameless(::open(folder.path().c_str(), O_WRONLY | O_TMPFILE | O_CLOEXEC, 0666));
  if (!nameless) GTEST_SKIP() << "requires a filesystem with O_TMPFILE at " << folder.path();
  const pid_t writer = ::fork();
  if (writer == 0) {
    auto file = NewFile::create(folder / "a", Existing::kept);
    if (file && file->write(bytes_of("half"))) ::kill(::getpid(), SIGKILL);
    ::_exit(1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(writer, &status, 0), writer);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  EXPECT_EQ(entries(folder), 0u);
}

TEST(NewFile, KeepsWhatIsThere) {
  const test::TemporaryFolder folder;
  folder.write("a", "old");
  const auto refused = NewFile::create(folder / "a", Existing::kept);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, FailureKind::invalid_argument);
  EXPECT_NE(refused.error().message.find("exists already"), std::string::npos);

  auto late = NewFile::create(folder / "b", Existing::kept);
  folder.write("b", "came first");
  EXPECT_FALSE(late->publish());
  EXPECT_EQ(fs::file_size(folder / "b"), 10u);
}

TEST(NewFile, ReplacesWhenAsked) {
  const test::TemporaryFolder folder;
  folder.write("a", "old");
  auto file = NewFile::create(folder / "a", Existing::replaced);
  ASSERT_TRUE(file->write(bytes_of("newer")));
  ASSERT_TRUE(file->publish());
  EXPECT_EQ(fs::file_size(folder / "a"), 5u);
}

TEST(NewFile, NamesAMissingFolder) {
  const test::TemporaryFolder folder;
  const auto refused = NewFile::create(folder / "missing/a", Existing::kept);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("ENOENT"), std::string::npos);
}

TEST(NewFile, HasTheModeThatTheUmaskAllows) {
  const test::TemporaryFolder folder;
  const mode_t before = ::umask(027);
  auto file = NewFile::create(folder / "a", Existing::kept);
  ::umask(before);
  ASSERT_TRUE(file->publish());
  struct stat status {};
  ASSERT_EQ(::stat((folder / "a").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0640u);
}

TEST(NewFile, SaysHowMuchRoomIsMissing) {
  const test::TemporaryFolder folder;
  auto file = NewFile::create(folder / "a", Existing::kept);
  const auto refused = file->reserve(std::uint64_t{1} << 42);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, FailureKind::exhausted) << refused.error().message;
  EXPECT_NE(refused.error().message.find("needs 4398046511104 bytes, has "), std::string::npos);
}

}  // namespace
}  // namespace penstock
