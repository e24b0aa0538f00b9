#include "qkv/core/text.h"

#include <gtest/gtest.h>

#include "qkv/core/error.h"
#include "tests/support/errors.h"

namespace qkv {
namespace {

using namespace std::string_literals;  // NOLINT: for zero bytes

TEST(Printable, LeavesTextOfAllScriptsAlone) {
  for (const std::string text : {"", "a cat.jpg", "Größe", "猫", "🐈", "a\\x1b", "é"}) EXPECT_EQ(Printable(text), text);
}

TEST(Printable, EscapesWhatMovesACursorOrEndsALine) {
  EXPECT_EQ(Printable("a\nb\r\x1b[2J\x7f\t"), "a\\x0ab\\x0d\\x1b[2J\\x7f\\x09");
  EXPECT_EQ(Printable("\0"s), "\\x00");
  EXPECT_EQ(Printable("\xc2\x9b"), "\\xc2\\x9b");                   // C1: begins a sequence on some terminals
  EXPECT_EQ(Printable("\u202egpj.exe"), "\\xe2\\x80\\xaegpj.exe");  // right to left from here
  EXPECT_EQ(Printable("\u2028"), "\\xe2\\x80\\xa8");
}

TEST(Printable, EscapesWhatIsNoUtf8) {
  EXPECT_EQ(Printable("\xff\xfe"), "\\xff\\xfe");
  EXPECT_EQ(Printable("a\xc3"), "a\\xc3");         // cut off
  EXPECT_EQ(Printable("\xc0\xaf"), "\\xc0\\xaf");  // overlong "/"
  EXPECT_EQ(Printable("\xe0\x80\xaf"), "\\xe0\\x80\\xaf");
  EXPECT_EQ(Printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");           // a surrogate
  EXPECT_EQ(Printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");  // beyond U+10FFFF
  EXPECT_EQ(Printable("\xe2\x82z"), "\\xe2\\x82z");
}

TEST(Printable, ChangesNothingTheSecondTime) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  EXPECT_EQ(Printable(Printable(all)), Printable(all));
}

TEST(Printable, ClipsBetweenCharacters) {
  EXPECT_EQ(Printable("abc", 3), "abc");
  EXPECT_EQ(Printable("abcd", 3), "abc… (4 bytes)");
  for (const size_t max_bytes : {3u, 4u, 5u}) {  // within the second of two characters of three bytes
    EXPECT_EQ(Printable("例例例", max_bytes), "例… (9 bytes)");
  }
  EXPECT_EQ(Printable("a\xf0\x9f\x98\x80", 4), "a… (5 bytes)");
  EXPECT_EQ(Printable("\xff\xff\xff\xff", 2), "\\xff\\xff… (4 bytes)");
}

TEST(Fail, ClipsWhatIsVeryLong) {
  const std::string message =
      ErrorMessage([] { Fail("file: no tensor {}, {}", std::string(70'000, 'x'), "expected y"); });
  EXPECT_LT(message.size(), 1100u);
  EXPECT_TRUE(message.ends_with("xxx… (70000 bytes), expected y")) << message;
}

TEST(Fail, ShowsNamesOnOneLine) {
  const std::string name = "a\x1b[31m\nqkv: all is well", plain = "b";
  EXPECT_EQ(ErrorMessage([&] { Fail("{}: {} of {:>3}\nnext", name, 3, plain); }),
            "a\\x1b[31m\\x0aqkv: all is well: 3 of   b\nnext");
  EXPECT_EQ(ErrorMessage([&] { Require(false, "{}", name.c_str()); }), "a\\x1b[31m\\x0aqkv: all is well");
}

}  // namespace
}  // namespace qkv
