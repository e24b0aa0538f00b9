// Text files as lines.
#include "qkv/core/lines.h"

#include <gtest/gtest.h>

#include "qkv/core/file.h"
#include "tests/support/errors.h"
#include "tests/support/files.h"

namespace qkv {
namespace {

using Lines = std::vector<std::string_view>;

TEST(Lines, EndByOneOrTwoBytesAndBeginBehindTheMark) {
  EXPECT_EQ(SplitLines("\xEF\xBB\xBF"
                       "a\r\n\nb c\n\n"),
            (Lines{"a", "", "b c", ""}));
  EXPECT_EQ(SplitFilledLines("\xEF\xBB\xBF"
                             "a\r\n\nb c\n\r\n\n"),
            (Lines{"a", "", "b c"}));
  EXPECT_EQ(SplitLines("a\rb"), (Lines{"a\rb"}));
  EXPECT_TRUE(SplitLines("").empty());
  EXPECT_TRUE(SplitLines("\xEF\xBB\xBF").empty());
  EXPECT_TRUE(SplitFilledLines("\n\n").empty());
}

TEST(Lines, AreTrimmed) {
  EXPECT_EQ(Trim(" \ta b\r\n"), "a b");
  EXPECT_EQ(Trim(" \t "), "");
  EXPECT_EQ(Trim("a"), "a");
}

TEST(Lines, ComeFromAFile) {
  const TemporaryFolder folder;
  WriteFile(folder / "a", "x\ny");
  EXPECT_EQ(ReadFileOrInput(folder / "a", 10, "the text"), "x\ny");
  EXPECT_NE(ErrorMessage([&] { ReadFileOrInput(folder / "b", 10, "the text"); }), "");
}

TEST(Lines, TextsInUtf16AreNamed) {
  using namespace std::string_view_literals;
  for (const std::string_view text : {"\xFF\xFE"
                                      "a\0\n\0"sv,
                                      "\xFE\xFF\0a"sv, "a\0b\0c\0\n\0"sv, "\0a\0b"sv}) {
    EXPECT_NE(ErrorMessage([&] { SplitFilledLines(text); }).find("UTF-16"), std::string::npos);
  }
  EXPECT_EQ(SplitFilledLines("a\0bcdefg\n"sv).size(), 1u);
  EXPECT_TRUE(SplitFilledLines("").empty());
}

}  // namespace
}  // namespace qkv
