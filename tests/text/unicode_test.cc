// UTF-8, normal forms, tries and patterns.
#include "qkv/text/unicode.h"

#include <gtest/gtest.h>

#include "qkv/text/regex.h"
#include "qkv/text/trie.h"
#include "tests/support/errors.h"

namespace qkv::text {
namespace {

TEST(Unicode, ReplacesMaximalParts) {
  const std::string kBad = "\xef\xbf\xbd";
  EXPECT_EQ(ReplaceInvalidUtf8("abc"), "abc");
  EXPECT_EQ(ReplaceInvalidUtf8("\xff"
                               "a"),
            kBad + "a");
  EXPECT_EQ(ReplaceInvalidUtf8("\xf0\x9f\x98"
                               "a"),
            kBad + "a");                                              // three bytes of four: one part
  EXPECT_EQ(ReplaceInvalidUtf8("\xed\xa0\x80"), kBad + kBad + kBad);  // a surrogate
  EXPECT_EQ(ReplaceInvalidUtf8("\xc0\x80"), kBad + kBad);             // overlong
  EXPECT_EQ(ReplaceInvalidUtf8("\xf0\x9f\xff\xe2\x82"), kBad + kBad + kBad);
  EXPECT_TRUE(IsValidUtf8("\xf0\x9f\x98\x80"));
  EXPECT_FALSE(IsValidUtf8("abcdefgh\xe2\x82"));
}

TEST(Unicode, NormalForms) {
  EXPECT_EQ(Normalize("e\xcc\x81", NormalForm::kNfc), "\xc3\xa9");
  EXPECT_EQ(Normalize("x e\xcc\x81 y", NormalForm::kNfc), "x \xc3\xa9 y");
  EXPECT_EQ(Normalize("\xc3\xa9", NormalForm::kNfd), "e\xcc\x81");
  EXPECT_EQ(Normalize("\xef\xac\x81", NormalForm::kNfkc), "fi");
  EXPECT_EQ(Normalize("\xef\xac\x81", NormalForm::kNfc), "\xef\xac\x81");
  EXPECT_EQ(Normalize("\xe1\x84\x80\xe1\x85\xa1\xe1\x86\xa8", NormalForm::kNfc), "\xea\xb0\x81");  // jamo
  EXPECT_EQ(Normalize("", NormalForm::kNfc), "");
  std::string lower;
  AppendLower(0x130, &lower);
  EXPECT_EQ(lower, "i\xcc\x87");
}

TEST(Unicode, Graphemes) {
  EXPECT_EQ(GraphemeEnd("ab", 0), 1u);
  EXPECT_EQ(GraphemeEnd("e\xcc\x81x", 0), 3u);
  EXPECT_EQ(GraphemeEnd("\r\nx", 0), 2u);
}

TEST(Trie, FindsAllPrefixes) {
  const Trie trie({{"a", 1}, {"abc", 2}, {"b", 3}, {"ab\xff", 4}, {"abc", 5}});
  std::vector<std::pair<size_t, int32_t>> found;
  trie.ForEachPrefix("abcd", [&](size_t length, int32_t value) { found.emplace_back(length, value); });
  EXPECT_EQ(found, (std::vector<std::pair<size_t, int32_t>>{{1, 1}, {3, 5}}));
  EXPECT_EQ(trie.Longest("x").length, 0u);
  EXPECT_EQ(trie.Longest("ab\xff").value, 4);
  EXPECT_TRUE(Trie().Longest("a").length == 0);
}

TEST(Trie, ManyKeys) {
  std::vector<std::string> texts;
  for (int i = 0; i < 20000; ++i) texts.push_back(std::to_string(i * 7919 % 100003));
  std::vector<std::pair<std::string_view, int32_t>> keys;
  for (size_t i = 0; i < texts.size(); ++i) keys.emplace_back(texts[i], static_cast<int32_t>(i));
  const Trie trie(keys);
  for (size_t i = 0; i < texts.size(); ++i) {
    EXPECT_EQ(texts[static_cast<size_t>(trie.Longest(texts[i]).value)], texts[i]);
  }
}

std::vector<std::string> Matches(std::string_view pattern, std::string_view text) {
  std::vector<std::string> found;
  Regex(pattern, "test").ForEachMatch(text, [&](size_t begin, size_t end) {
    found.emplace_back(text.substr(begin, end - begin));
  });
  return found;
}

TEST(Regex, ClassesAreThoseOfTheOriginals) {
  EXPECT_EQ(Matches(R"(\s+)",
                    "a \xc2\xa0\xe1\xa0\x8e"
                    "b"),
            (std::vector<std::string>{" \xc2\xa0"}));  // not U+180E
  EXPECT_EQ(Matches(R"([^\s]+)", "a b"), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(Matches(R"([\S]+)", "a b"), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(Matches(R"(\w+)", "e\xcc\x81_1-"), (std::vector<std::string>{"e\xcc\x81_1"}));
  EXPECT_EQ(Matches("x*", "axb"), (std::vector<std::string>{"", "x", ""}));
}

TEST(Regex, RefusesWhatTakesForever) {
  EXPECT_NE(ErrorMessage([] { Regex("(", "somewhere"); }).find("somewhere: expected a regular expression"),
            std::string::npos);
  EXPECT_NE(ErrorMessage([] { Matches("(a|aa|aaa)+$", std::string(5000, 'a') + "b"); }).find("too many steps"),
            std::string::npos);
}

}  // namespace
}  // namespace qkv::text
