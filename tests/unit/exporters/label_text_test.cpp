// SPDX-License-Identifier: Apache-2.0
#include "exporters/label_text.hpp"

#include <set>

#include <gtest/gtest.h>

#include "tests/support/random.hpp"
#include "tests/unit/exporters/strict_page.hpp"

namespace penstock {
namespace {

TEST(LabelText, LeavesUtf8AsItIs) {
  for (const std::string_view text :
       {"", "flux.safetensors", "we\"ird", "back\\slash", "new\nline", "}", "\xc3\xa9", "\xe2\x82\xac",
        "\xf0\x9f\x98\x80", "\xed\x9f\xbf", "\xf4\x8f\xbf\xbf"}) {
    EXPECT_EQ(label_text(text), text);
  }
}

TEST(LabelText, WritesOtherBytesAndThePercentSignInHex) {
  EXPECT_EQ(label_text("a\xff"), "a%FF");
  EXPECT_EQ(label_text("a%FF"), "a%25FF");
  EXPECT_EQ(label_text("\xc3"), "%C3");
  EXPECT_EQ(label_text("\xc3("), "%C3(");
  EXPECT_EQ(label_text("\xc0\x80"), "%C0%80");                // Overlong.
  EXPECT_EQ(label_text("\xe0\x80\x80"), "%E0%80%80");         // Overlong.
  EXPECT_EQ(label_text("\xed\xa0\x80"), "%ED%A0%80");         // Surrogate.
  EXPECT_EQ(label_text("\xf4\x90\x80\x80"), "%F4%90%80%80");  // Beyond the last character.
  EXPECT_EQ(label_text("\xf0\x9f\x98"), "%F0%9F%98");
}

TEST(LabelText, CutsLongTextsBetweenCharactersAndKeepsThemApart) {
  const std::string longest(label_bytes_max, 'a');
  EXPECT_EQ(label_text(longest), longest);
  const std::string one = label_text(longest + "a"), other = label_text(longest + "b");
  EXPECT_EQ(one.size(), label_bytes_max);
  EXPECT_NE(one, other);
  std::string euros;
  for (int i = 0; i < 2000; ++i) euros += "\xe2\x82\xac";
  const std::string cut = label_text(euros);
  EXPECT_LE(cut.size(), label_bytes_max);
  EXPECT_TRUE(test::is_valid_utf8(cut));
  EXPECT_EQ(cut[cut.size() - 13], '~');
}

TEST(LabelText, OfAnyBytesIsValidShortAndDifferent) {
  test::Random random(1);
  std::set<std::string> texts, labels;
  constexpr std::string_view likely = "%2F\xff\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80~";
  for (int round = 0; round < 20'000; ++round) {
    std::string text;
    for (std::uint64_t length = random.below(round % 2 == 0 ? 6 : 200); length > 0; --length)
      text += random.one_in(4) ? static_cast<char>(random.below(256)) : likely[random.below(likely.size())];
    const std::string label = label_text(text);
    ASSERT_TRUE(test::is_valid_utf8(label));
    ASSERT_LE(label.size(), label_bytes_max);
    texts.insert(text);
    labels.insert(label);
  }
  EXPECT_EQ(texts.size(), labels.size());
}

}  // namespace
}  // namespace penstock
