// Patterns of Oniguruma: the matches of the original, and what is refused by name. tools/verify_patterns.py writes
// golden/patterns.json.
#include "qkv/text/pattern.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "qkv/text/regex.h"
#include "tests/support/errors.h"
#include "tests/text/support.h"

namespace qkv::text {
namespace {

using Ranges = std::vector<std::pair<size_t, size_t>>;

Ranges RangesOf(const Regex& regex, std::string_view text) {
  Ranges ranges;
  regex.ForEachMatch(text, [&](size_t begin, size_t end) {
    if (end > begin) ranges.emplace_back(begin, end);  // the goldens have no others
  });
  return ranges;
}

std::vector<std::string> PiecesOf(std::string_view pattern, std::string_view text) {
  std::vector<std::string> pieces;
  for (const auto& [begin, end] : RangesOf(Regex(pattern, "test"), text)) {
    pieces.emplace_back(text.substr(begin, end - begin));
  }
  return pieces;
}

using List = std::vector<std::string>;

TEST(Pattern, MatchesAreTheOriginals) {
  const io::Json goldens = io::ReadJson(SourceFolder() / "tests/text/golden/patterns.json");
  const auto texts = goldens["texts"].get<std::vector<std::string>>();
  ASSERT_GT(goldens["patterns"].size(), 400u);
  for (const io::Json& row : goldens["patterns"]) {
    const std::string pattern = row[0];
    const Regex regex(pattern, "test");
    for (size_t i = 0; i < texts.size(); ++i) {
      EXPECT_EQ(RangesOf(regex, texts[i]), row[1][i].get<Ranges>()) << pattern << "\n" << texts[i];
    }
  }
}

TEST(Pattern, BracketsAreSets) {
  EXPECT_EQ(PiecesOf("[a-z&&[^aeiou]&&[^x]]+", "abcxyz"), (List{"bc", "yz"}));
  EXPECT_EQ(PiecesOf("[^a-c&&b-d]", "abcd"), (List{"a", "d"}));
  EXPECT_EQ(PiecesOf("[[^a]b]+", "abc"), (List{"bc"}));
  EXPECT_EQ(PiecesOf("[a&&]", "a&"), List{});
  EXPECT_EQ(PiecesOf("[]a]+", "]a["), (List{"]a"}));
  EXPECT_EQ(PiecesOf("[\\W_]+", "a_-\u00b2b"), (List{"_-\u00b2"}));    // within brackets ² is no part of a word
  EXPECT_EQ(PiecesOf("\\w+", "a_-\u00b2b"), (List{"a_", "\u00b2b"}));  // and outside it is
  EXPECT_EQ(PiecesOf("[[:^alpha:]]", "a1"), (List{"1"}));
  EXPECT_EQ(PiecesOf("[^[:alnum:]]+", "a1 -\u24d0"), (List{" -"}));  // ⓐ is alphabetic
  EXPECT_EQ(PiecesOf("[[:a]]+", "a:"), (List{"a:"}));
}

TEST(Pattern, LinesEscapesAndRepeats) {
  EXPECT_EQ(PiecesOf("^a|c$", "a\nac\nc"), (List{"a", "a", "c", "c"}));
  EXPECT_EQ(PiecesOf(".+", "a\rb\nc"), (List{"a\rb", "c"}));
  EXPECT_EQ(PiecesOf("(?m:.)+", "a\nb"), (List{"a\nb"}));
  EXPECT_EQ(PiecesOf("\\h+", "ag \t9"), (List{"a", "9"}));
  EXPECT_EQ(PiecesOf("a{,2}", "aaa"), (List{"aa", "a"}));
  EXPECT_EQ(PiecesOf("a{2}+b", "aaaab"), (List{"aaaab"}));  // no possessive interval
  EXPECT_EQ(PiecesOf("a{2}?", "aaa"), (List{"aa"}));        // {2}, or nothing
  EXPECT_EQ(PiecesOf("a{x}", "a{x}"), (List{"a{x}"}));
  EXPECT_EQ(PiecesOf("\\b.", "a\u0301b c"), (List{"a", " ", "c"}));  // marks are parts of words
  EXPECT_EQ(PiecesOf("a(?i)b|c", "aB AB C"), (List{"aB"})) << "the option holds for both alternatives, behind a";
  EXPECT_EQ(PiecesOf("(?<x>a|b)(c)?\\k<x>", "aca bb ab"), (List{"aca", "bb"}));
  EXPECT_EQ(PiecesOf("(?x) a b # c", "ab"), (List{"ab"}));
  // A match that \K empties does not move the search on.
  EXPECT_EQ(PiecesOf("ab\\K|b?c", "abc"), (List{"c"}));
}

// Each names what it is, and where.
TEST(Pattern, RefusesByName) {
  const std::pair<const char*, const char*> cases[] = {
      {"ab\\y", "\\y at byte 2 is not supported"},
      {"\\X", "\\X at byte 0 is not supported"},  // PCRE2's clusters are of another version of Unicode
      {"\\i", "\\i at byte 0 is not supported"},
      {"(?~a)", "(?~ at byte 0 is not supported"},
      {"(?W)\\w", "(?W at byte 0 is not supported"},
      {"(?<a>a)\\g<a>", "\\g at byte 7 is not supported"},
      {"(*FAIL)", "(* at byte 0 is not supported"},
      {"(a\\1)", "\\1 at byte 2 refers to the group that it is in"},
      {"(a)\\2", "refers to a group that does not exist"},
      {"\\p{In_Arabic}", "\\p{In_Arabic} at byte 0 is a property that is not supported"},
      {"[[:foo:]]", "[:foo:] at byte 1 is not a class of POSIX"},
      {"(?i)stra\u00dfe", "without regard to case also matches text of another length"},
      {"(?i:class)", "without regard to case also matches text of another length"},
      {"(?i)[\\p{Lu}]", "\\p{Lu} at byte 5 within brackets and without regard to case"},
      {"[\\w-a]", "- at byte 3 behind a set is not supported"},
      {"[a-[b]]", "- at byte 2 before a bracket is not supported"},
      {"[z-a]", "ends a range that is empty"},
      {"[a", "[a at byte 0 has no closing bracket"},
      {"\\xe9", "\\xe9 at byte 0 is a byte of a character"},
      {"\\u{41}", "\\u at byte 0 has too few hexadecimal digits"},
      {"a{2,1}", "{2,1} at byte 1 is not supported"},
      {"a{70000}", "repeats more than 65535 times"},
      {"^*", "repeats what has no length"},
      {"a|*", "* at byte 2 has nothing to repeat"},
      {"(a", "(a at byte 0 has no closing parenthesis"},
      {"a)", ") at byte 1 closes no group"},
      {"a\\", "\\ at byte 1 ends the pattern"},
      {"a(?#\\", "(?#\\ at byte 1 has no closing parenthesis"},
      {"(?<=a*)b", "lookbehind assertion is not fixed length"},
  };
  for (const auto& [pattern, message] : cases) {
    // Clang 14 captures no structured binding by reference.
    const std::string got = ErrorMessage([&, &pattern = pattern] { Regex(pattern, "here"); });
    EXPECT_TRUE(got.starts_with("here: expected a regular expression, got \"")) << pattern << ": " << got;
    EXPECT_NE(got.find(message), std::string::npos) << pattern << ": " << got;
  }
}

// Neither long nor deep patterns take the translation far.
TEST(Pattern, TranslationIsBounded) {
  const auto message = [](const std::string& part) {
    std::string pattern;
    while (pattern.size() + part.size() <= size_t{64} << 10) pattern += part;
    return ErrorMessage([&] { TranslatePattern(pattern, "here"); });
  };
  EXPECT_NE(message("\\b").find("is too long"), std::string::npos);
  EXPECT_NE(message("(").find("too deep"), std::string::npos);
  EXPECT_NE(message("(?i)").find("too deep"), std::string::npos);
  EXPECT_NE(message("[").find("too deep"), std::string::npos);
  EXPECT_NE(message("+").find("nothing to repeat"), std::string::npos);
  EXPECT_NE(ErrorMessage([] { TranslatePattern("a" + std::string(1000, '*'), "here"); }).find("too often"),
            std::string::npos);
  EXPECT_EQ(message("a"), "");
}

}  // namespace
}  // namespace qkv::text
