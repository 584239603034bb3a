// SPDX-License-Identifier: Apache-2.0
#include "dataplane/io/checkpoint_file.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/random_file.hpp"
#include "tests/support/temporary_folder.hpp"

namespace penstock::test {
namespace {

UniqueFd open_fd(const std::filesystem::path& path, int flags) {
  return UniqueFd(::open(path.c_str(), flags | O_CLOEXEC, 0600));
}

FailureKind refusal(UniqueFd cached, UniqueFd direct = UniqueFd()) {
  const auto file = CheckpointFile::adopt(std::move(cached), std::move(direct));
  return file ? FailureKind::internal : file.error().kind;
}

TEST(CheckpointFile, KnowsHardAndSymbolicLinksAsOneFile) {
  const TemporaryFolder folder;
  folder.write("model", "content");
  std::filesystem::create_hard_link(folder / "model", folder / "hard");
  std::filesystem::create_symlink(folder / "model", folder / "soft");
  const auto direct = *CheckpointFile::open(folder / "model");
  EXPECT_EQ((*CheckpointFile::open(folder / "hard"))->identity(), direct->identity());
  EXPECT_EQ((*CheckpointFile::open(folder / "soft"))->identity(), direct->identity());
}

TEST(CheckpointFile, ChangesItsIdentityWithContentWrittenInPlaceAndItsTimePutBack) {
  const TemporaryFolder folder;
  const auto path = folder.write("model", "content");
  const auto before = *CheckpointFile::open(path);
  struct stat status {};
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  {
    const UniqueFd file = open_fd(path, O_WRONLY);
    ASSERT_EQ(::pwrite(file.get(), "CONTENT", 7, 0), 7);
    const timespec times[2] = {status.st_atim, status.st_mtim};
    ASSERT_EQ(::futimens(file.get(), times), 0);
  }
  const auto after = *CheckpointFile::open(path);
  EXPECT_EQ(after->identity().mtime_ns, before->identity().mtime_ns);
  EXPECT_NE(after->identity(), before->identity());
  EXPECT_NE(after->identity().id(), before->identity().id());
  EXPECT_FALSE(before->verify_unchanged());
}

TEST(CheckpointFile, NamesAnIdentityWithTwelveHexDigits) {
  FileIdentity identity{.device = 1, .inode = 2, .bytes = 3, .mtime_ns = 4, .ctime_ns = 5};
  const std::string id = identity.id();
  EXPECT_EQ(id.size(), 12u);
  EXPECT_EQ(id.find_first_not_of("0123456789abcdef"), std::string::npos);
  EXPECT_EQ(identity.id(), id);
  for (const auto& other :
       {FileIdentity{2, 2, 3, 4, 5}, FileIdentity{1, 1, 3, 4, 5}, FileIdentity{1, 2, 4, 4, 5},
        FileIdentity{1, 2, 3, 5, 5}, FileIdentity{1, 2, 3, 4, 4}}) {
    EXPECT_NE(other.id(), id);
  }
}

TEST(CheckpointFile, BelievesDirectReadsOnlyWithTheFilesystemsWord) {
  const TemporaryFolder folder;
  const auto path = folder.write("model", "content");
  const auto file = *CheckpointFile::adopt(open_fd(path, O_RDONLY), open_fd(path, O_RDONLY));
  EXPECT_FALSE(file->direct().usable);
  EXPECT_STREQ(file->direct().reason, "the second descriptor lacks O_DIRECT");
  EXPECT_EQ(file->direct_fd(), -1);
  const auto lone = *CheckpointFile::adopt(open_fd(path, O_RDONLY), UniqueFd());
  EXPECT_FALSE(lone->direct().usable);
  EXPECT_STREQ(lone->direct().reason, "no descriptor with O_DIRECT");
}

TEST(CheckpointFile, RefusesWhatIsNoRegularFileToRead) {
  const TemporaryFolder folder;
  const auto path = folder.write("model", "content");
  const auto other = folder.write("other", "content");
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(refusal(UniqueFd()), FailureKind::invalid_argument);
  EXPECT_EQ(refusal(open_fd(folder.path(), O_RDONLY)), FailureKind::not_a_file);
  EXPECT_EQ(refusal(open_fd("/dev/null", O_RDONLY)), FailureKind::not_a_file);
  EXPECT_EQ(refusal(open_fd(folder / "pipe", O_RDONLY | O_NONBLOCK)), FailureKind::not_a_file);
  EXPECT_EQ(refusal(open_fd(path, O_WRONLY)), FailureKind::not_permitted);
  EXPECT_EQ(refusal(open_fd(path, O_PATH)), FailureKind::not_permitted);
  EXPECT_EQ(refusal(open_fd(path, O_RDONLY), open_fd(other, O_RDONLY)), FailureKind::invalid_argument);
  EXPECT_EQ(refusal(open_fd(path, O_RDONLY), open_fd(path, O_WRONLY)), FailureKind::not_permitted);
  EXPECT_EQ(refusal(open_fd(path, O_RDONLY | O_DIRECT)), FailureKind::invalid_argument);
}

TEST(CheckpointFile, OpensNoFifoForEverAndNamesWhatIsMissing) {
  const TemporaryFolder folder;
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(CheckpointFile::open(folder / "pipe").error().kind, FailureKind::not_a_file);
  const auto missing = CheckpointFile::open(folder / "nothing");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().kind, FailureKind::not_found);
  EXPECT_NE(missing.error().message.find("ENOENT"), std::string::npos);
}

TEST(CheckpointFile, TellsWhatChangedWhileItWasRead) {
  const TemporaryFolder folder;
  const auto path = folder / "model";
  write_durably(path, random_bytes(8192, 1));
  const auto shrunk = *CheckpointFile::open(path);
  EXPECT_TRUE(shrunk->verify_unchanged());
  ASSERT_EQ(::truncate(path.c_str(), 100), 0);
  const auto answer = shrunk->verify_unchanged();
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().kind, FailureKind::changed_while_read);
  EXPECT_EQ(answer.error().message, "file shrank from 8192 to 100 during load");

  const auto grown = *CheckpointFile::open(path);
  ASSERT_EQ(::truncate(path.c_str(), 200), 0);
  EXPECT_EQ(grown->verify_unchanged().error().message, "file grew from 100 to 200 during load");
}

}  // namespace
}  // namespace penstock::test
