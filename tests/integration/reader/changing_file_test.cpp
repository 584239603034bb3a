// SPDX-License-Identifier: Apache-2.0
// R05: the file changes while it is being loaded. The first half is read, then it happens, then the second half.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>

#include "dataplane/base/units.hpp"
#include "tests/integration/reader/load_file.hpp"
#include "tests/support/drive_reader.hpp"
#include "tests/support/random_file.hpp"
#include "tests/support/temporary_folder.hpp"

namespace penstock::test {
namespace {

constexpr std::uint64_t model_bytes = 64 * mib;
constexpr std::uint64_t half = model_bytes / 2;
constexpr std::uint64_t step = mib;

class CaseR05 : public testing::Test {
 protected:
  void SetUp() override {
    content_ = random_bytes(model_bytes, 5);
    write_durably(path(), content_);
    drop_from_page_cache(path());
    file_ = *CheckpointFile::open(path());
    opened_ = open_stream();
    id_ = *opened_.stream->add(file_);
    destination_ = *Mapping::anonymous(model_bytes);
  }
  std::filesystem::path path() const { return folder_ / "model"; }
  // The text of the first failure, or nothing.
  std::string read_half(std::uint64_t from) {
    for (std::uint64_t at = from; at < from + half; at += step) {
      opened_.stream->push({.file = id_,
                            .extent = {.offset = at, .length = step},
                            .needed_bytes = step,
                            .destination = destination_.data() + at,
                            .tag = at});
    }
    auto answers = drain(*opened_.stream);
    std::ranges::sort(answers, {}, &ReadStream::Answer::tag);
    const auto failed = std::ranges::find_if(answers, [](const auto& answer) { return !answer.ok; });
    return failed == answers.end() ? std::string() : describe(*failed, model_bytes).message;
  }
  bool holds_the_old_content() const { return std::ranges::equal(destination_.bytes(), content_); }

  TemporaryFolder folder_;
  std::vector<std::byte> content_;
  std::shared_ptr<CheckpointFile> file_;
  Mapping destination_;
  Opened opened_;
  StreamFile id_{};
};

TEST_F(CaseR05, FailsWithoutASignalWhenTheFileShrinks) {
  EXPECT_EQ(read_half(0), "");
  ASSERT_EQ(::truncate(path().c_str(), mib), 0);
  EXPECT_EQ(read_half(half), "unexpected end at 33554432 of 67108864");
  const auto verdict = file_->verify_unchanged();
  ASSERT_FALSE(verdict);
  EXPECT_EQ(verdict.error().kind, FailureKind::changed_while_read);
  EXPECT_EQ(verdict.error().message, "file shrank from 67108864 to 1048576 during load");
}

TEST_F(CaseR05, NoticesThatTheSecondHalfWasOverwritten) {
  EXPECT_EQ(read_half(0), "");
  {
    const UniqueFd writer(::open(path().c_str(), O_WRONLY | O_CLOEXEC));
    ASSERT_EQ(::pwrite(writer.get(), content_.data(), half, half), static_cast<ssize_t>(half));
  }
  EXPECT_EQ(read_half(half), "");
  const auto verdict = file_->verify_unchanged();
  ASSERT_FALSE(verdict);
  EXPECT_EQ(verdict.error().kind, FailureKind::changed_while_read);
}

TEST_F(CaseR05, ReadsTheOldContentWhenANewFileTakesThePath) {
  EXPECT_EQ(read_half(0), "");
  write_durably(folder_ / "new", random_bytes(mib, 6));
  std::filesystem::rename(folder_ / "new", path());
  EXPECT_EQ(read_half(half), "");
  EXPECT_TRUE(file_->verify_unchanged());
  EXPECT_TRUE(holds_the_old_content());
  EXPECT_NE((*CheckpointFile::open(path()))->identity(), file_->identity());
}

TEST_F(CaseR05, ReadsTheOldContentWhenTheFileIsUnlinked) {
  EXPECT_EQ(read_half(0), "");
  std::filesystem::remove(path());
  EXPECT_EQ(read_half(half), "");
  EXPECT_TRUE(file_->verify_unchanged());
  EXPECT_TRUE(holds_the_old_content());
  EXPECT_EQ(CheckpointFile::open(path()).error().kind, FailureKind::not_found);
}

}  // namespace
}  // namespace penstock::test
