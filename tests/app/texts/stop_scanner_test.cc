#include "qkv/app/texts/stop_scanner.h"

#include <gtest/gtest.h>

namespace qkv::app {
namespace {

// What is shown of a text that comes in pieces of one byte, or whole.
std::string Shown(const std::vector<std::string>& stops, std::string_view text, size_t each) {
  StopScanner scanner(stops);
  std::string shown;
  for (size_t i = 0; i < text.size(); i += each) shown += scanner.Add(text.substr(i, each));
  return shown + (scanner.stopped() ? "|" : scanner.Rest());
}

TEST(StopScanner, EndsATextWhicheverPiecesItComesIn) {
  for (const size_t each : {size_t{1}, size_t{2}, size_t{3}, size_t{100}}) {
    EXPECT_EQ(Shown({}, "one two", each), "one two");
    EXPECT_EQ(Shown({"two"}, "one two three", each), "one |");
    EXPECT_EQ(Shown({"twx", "tw"}, "one two", each), "one |");
    EXPECT_EQ(Shown({"aab"}, "aaab", each), "a|");
    EXPECT_EQ(Shown({"xyz"}, "one xy", each), "one xy");
    EXPECT_EQ(Shown({"o"}, "one", each), "|");
  }
}

}  // namespace
}  // namespace qkv::app
