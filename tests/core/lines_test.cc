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

}  // namespace
}  // namespace qkv
