// SPDX-License-Identifier: Apache-2.0
#include "dataplane/base/quote.hpp"

#include <gtest/gtest.h>

namespace penstock {
namespace {

TEST(Quoted, LeavesReadableTextAsItIs) {
  EXPECT_EQ(quoted("model.layers.0.weight"), "\"model.layers.0.weight\"");
  EXPECT_EQ(quoted("poids de l’été 重み 🚰"), "\"poids de l’été 重み 🚰\"");
  EXPECT_EQ(quoted(""), "\"\"");
}

TEST(Quoted, EscapesWhatCouldForgeALineOrSteerATerminal) {
  EXPECT_EQ(quoted("a\nERROR b"), "\"a\\u000aERROR b\"");
  EXPECT_EQ(quoted("\x1b[31m"), "\"\\u001b[31m\"");
  EXPECT_EQ(quoted(std::string_view("a\0b", 3)), "\"a\\u0000b\"");
  EXPECT_EQ(quoted("say \"hi\" \\"), "\"say \\\"hi\\\" \\\\\"");
  EXPECT_EQ(quoted("\xc2\x85"), "\"\\u0085\"");
  EXPECT_EQ(quoted("a\xe2\x80\xae" "b"), "\"a\\u202eb\"");
}

TEST(Quoted, ShowsBytesThatAreNoUtf8) {
  EXPECT_EQ(quoted("\xff"), "\"\\xff\"");
  EXPECT_EQ(quoted("\xc0\xaf"), "\"\\xc0\\xaf\"");
  EXPECT_EQ(quoted("\xed\xa0\x80"), "\"\\xed\\xa0\\x80\"");
  EXPECT_EQ(quoted("\xf4\x90\x80\x80"), "\"\\xf4\\x90\\x80\\x80\"");
  EXPECT_EQ(quoted("\xe2\x80"), "\"\\xe2\\x80\"");
}

TEST(Quoted, CutsLongTextAtACharacter) {
  EXPECT_EQ(quoted("abcdef", 3), "\"abc...\"");
  EXPECT_EQ(quoted("ab重み", 4), "\"ab...\"");
  EXPECT_EQ(quoted("abc", 3), "\"abc\"");
}

}  // namespace
}  // namespace penstock
