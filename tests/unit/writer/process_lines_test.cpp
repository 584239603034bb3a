// SPDX-License-Identifier: Apache-2.0
#include "dataplane/writer/process_lines.hpp"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace penstock {
namespace {

class ProcessLinesTest : public testing::Test {
 protected:
  void SetUp() override {
    auto opened = ProcessLines::open(end_);
    ASSERT_TRUE(opened.has_value());
    lines_ = *std::move(opened);
  }
  void write(const std::string& text) {
    ASSERT_EQ(::write(end_.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }

  UniqueFd end_;
  ProcessLines lines_;
  std::vector<std::string> said_;
  const ProcessLines::Say say_ = [this](std::string_view line) { said_.emplace_back(line); };
};

TEST_F(ProcessLinesTest, SaysWholeLinesAndTheRestAtTheEnd) {
  lines_.read(say_);
  EXPECT_TRUE(said_.empty());
  write("one\n\ntwo\nthr");
  lines_.read(say_);
  EXPECT_EQ(said_, (std::vector<std::string>{"one", "two"}));
  write("ee\nfour");
  end_.reset();
  lines_.read(say_);
  EXPECT_EQ(said_, (std::vector<std::string>{"one", "two", "three", "four"}));
  EXPECT_EQ(lines_.fd(), -1);
}

TEST_F(ProcessLinesTest, CutsALineThatNeverEnds) {
  write(std::string(3000, 'x'));
  lines_.read(say_);
  ASSERT_EQ(said_.size(), 2u);
  EXPECT_EQ(said_.front().size(), 1024u);
}

TEST_F(ProcessLinesTest, ClosingSaysWhatIsThere) {
  write("last words\nand more");
  lines_.close(say_);
  EXPECT_EQ(said_, (std::vector<std::string>{"last words", "and more"}));
}

}  // namespace
}  // namespace penstock
