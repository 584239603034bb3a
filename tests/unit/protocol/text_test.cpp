// SPDX-License-Identifier: Apache-2.0
#include "service/protocol/text.hpp"

#include <gtest/gtest.h>

namespace penstock {
namespace {

TEST(Text, AcceptsWellFormedUtf8) {
  for (const char* text :
       {"", "plain", "é", "漢字", "\xf0\x9f\x98\x80", "\xf4\x8f\xbf\xbf", "\xed\x9f\xbf"}) {
    EXPECT_TRUE(is_utf8(text)) << text;
    EXPECT_TRUE(is_line(text)) << text;
  }
}

TEST(Text, RefusesWhatIsNotUtf8) {
  for (const char* text : {"\x80", "\xc3", "\xc0\xaf", "\xe0\x80\xaf", "\xf0\x80\x80\xaf", "\xed\xa0\x80",
                           "\xf4\x90\x80\x80", "\xf8\x88\x80\x80\x80", "\xff", "a\xe2\x82", "\xe2\x28\xa1"}) {
    EXPECT_FALSE(is_utf8(text)) << testing::PrintToString(text);
  }
}

TEST(Text, ALineHasNoControlCharacters) {
  for (const char* text : {"\n", "\t", "a\rb", "\x1b[0m", "\x7f", "\xc2\x9b"}) EXPECT_FALSE(is_line(text));
  EXPECT_FALSE(is_line(std::string_view("a\0b", 3)));
  EXPECT_TRUE(is_line("\xc2\xa0"));
}

TEST(Text, MakesALineOfAnything) {
  EXPECT_EQ(to_line("fine", 10), "fine");
  EXPECT_EQ(to_line("a\nb\xff"
                    "c\xc2\x9b"
                    "d",
                    10),
            "a?b?c?d");
  EXPECT_EQ(to_line("abcdef", 3), "abc");
}

TEST(Text, NeverCutsACharacter) {
  EXPECT_EQ(to_line("aé", 2), "a");
  EXPECT_EQ(to_line("aé", 3), "aé");
  EXPECT_EQ(to_line("漢字", 5), "漢");
}

}  // namespace
}  // namespace penstock
