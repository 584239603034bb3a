// SPDX-License-Identifier: Apache-2.0
#include "dataplane/base/quote.hpp"

#include <gtest/gtest.h>

namespace penstock {
namespace {

TEST(Quote, LeavesReadableTextAsItIs) {
  EXPECT_EQ(quote("model.layers.0.weight"), "\"model.layers.0.weight\"");
  EXPECT_EQ(quote("poids de l’été 重み 🚰"), "\"poids de l’été 重み 🚰\"");
  EXPECT_EQ(quote(""), "\"\"");
}

TEST(Quote, EscapesWhatCouldForgeALineOrSteerATerminal) {
  EXPECT_EQ(quote("a\nERROR b"), "\"a\\u000aERROR b\"");
  EXPECT_EQ(quote("\x1b[31m"), "\"\\u001b[31m\"");
  EXPECT_EQ(quote(std::string_view("a\0b", 3)), "\"a\\u0000b\"");
  EXPECT_EQ(quote("say \"hi\" \\"), "\"say \\\"hi\\\" \\\\\"");
  EXPECT_EQ(quote("\xc2\x85"), "\"\\u0085\"");
  EXPECT_EQ(quote("a\xe2\x80\xae"
                  "b"),
            "\"a\\u202eb\"");
}

TEST(Quote, ShowsBytesThatAreNoUtf8) {
  EXPECT_EQ(quote("\xff"), "\"\\xff\"");
  EXPECT_EQ(quote("\xc0\xaf"), "\"\\xc0\\xaf\"");
  EXPECT_EQ(quote("\xed\xa0\x80"), "\"\\xed\\xa0\\x80\"");
  EXPECT_EQ(quote("\xf4\x90\x80\x80"), "\"\\xf4\\x90\\x80\\x80\"");
  EXPECT_EQ(quote("\xe2\x80"), "\"\\xe2\\x80\"");
}

TEST(Quote, CutsLongTextAtACharacter) {
  EXPECT_EQ(quote("abcdef", 3), "\"abc...\"");
  EXPECT_EQ(quote("ab重み", 4), "\"ab...\"");
  EXPECT_EQ(quote("abc", 3), "\"abc\"");
}

}  // namespace
}  // namespace penstock
