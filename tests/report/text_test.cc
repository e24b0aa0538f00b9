#include "qkv/report/text.h"

#include <gtest/gtest.h>

#include <cmath>

namespace qkv::report {
namespace {

TEST(EscapeXml, MarksBecomeEntities) {
  EXPECT_EQ(EscapeXml("a < b & \"c\" > 'd'"), "a &lt; b &amp; &quot;c&quot; &gt; &#39;d&#39;");
  EXPECT_EQ(EscapeXml("W_Q = ½ · é 🙂\t\n"), "W_Q = ½ · é 🙂\t\n");
}

TEST(EscapeXml, WhatXmlForbidsBecomesTheReplacementCharacter) {
  EXPECT_EQ(EscapeXml(std::string_view("a\0b\x1b", 4)), "a\uFFFDb\uFFFD");
  EXPECT_EQ(EscapeXml("\xEF\xBF\xBE"), "\uFFFD");                        // U+FFFE
  EXPECT_EQ(EscapeXml("\xC0\xAF"), "\uFFFD\uFFFD");                      // overlong
  EXPECT_EQ(EscapeXml("\xED\xA0\x80"), "\uFFFD\uFFFD\uFFFD");            // a surrogate
  EXPECT_EQ(EscapeXml("\xF0\x9F\x99"), "\uFFFD\uFFFD\uFFFD");            // cut off
  EXPECT_EQ(EscapeXml("\xF4\x90\x80\x80"), "\uFFFD\uFFFD\uFFFD\uFFFD");  // beyond U+10FFFF
}

TEST(EscapeMarkdown, CellsStayCells) {
  EXPECT_EQ(EscapeMarkdown("a|b\nc*d <i> W_Q & `x`"), "a\\|b c\\*d &lt;i> W\\_Q &amp; \\`x\\`");
}

TEST(EscapeCsv, QuotesOnlyWhatNeedsIt) {
  EXPECT_EQ(EscapeCsv("plain text"), "plain text");
  EXPECT_EQ(EscapeCsv("a,b"), "\"a,b\"");
  EXPECT_EQ(EscapeCsv("say \"a\""), "\"say \"\"a\"\"\"");
  EXPECT_EQ(EscapeCsv("two\nlines"), "\"two\nlines\"");
}

TEST(Number, KeepsTheDigitsThatCount) {
  EXPECT_EQ(Number(0.012345), "0.0123");
  EXPECT_EQ(Number(7.306), "7.31");
  EXPECT_EQ(Number(81.24), "81.2");
  EXPECT_EQ(Number(1465.4), "1465");
  EXPECT_EQ(Number(999.96), "1000");
  EXPECT_EQ(Number(0.99996), "1.00");
  EXPECT_EQ(Number(-2.5), "-2.50");
  EXPECT_EQ(Number(1.234e-7), "1.23e-7");
  EXPECT_EQ(Number(3.5e9, 2), "3.5e9");
  EXPECT_EQ(Number(64), "64");
  EXPECT_EQ(Number(-3), "-3");
  EXPECT_EQ(Number(0), "0");
  EXPECT_EQ(Number(-0.0), "0");
  EXPECT_EQ(Number(NAN), "–");
  EXPECT_EQ(Number(INFINITY), "∞");
}

TEST(Seconds, TakesTheUnitThatFits) {
  EXPECT_EQ(Seconds(50.1e-6), "50.1 µs");
  EXPECT_EQ(Seconds(2.93), "2.93 s");
  EXPECT_EQ(Seconds(0.0123), "12.3 ms");
  EXPECT_EQ(Seconds(4.2e-9), "4.20 ns");
}

TEST(WithCommas, GroupsDigits) {
  EXPECT_EQ(WithCommas(0), "0");
  EXPECT_EQ(WithCommas(999), "999");
  EXPECT_EQ(WithCommas(1000), "1,000");
  EXPECT_EQ(WithCommas(12345678), "12,345,678");
  EXPECT_EQ(WithCommas(-123456), "-123,456");
}

TEST(CountCharacters, CountsCodePoints) {
  EXPECT_EQ(CountCharacters("µs"), 2);
  EXPECT_EQ(CountCharacters(""), 0);
}

}  // namespace
}  // namespace qkv::report
