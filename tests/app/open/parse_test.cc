#include "qkv/app/open/parse.h"

#include <gtest/gtest.h>

#include "qkv/app/open/json_line.h"
#include "qkv/core/error.h"

namespace qkv::app {
namespace {

TEST(Parse, Sizes) {
  EXPECT_EQ(ParseSize("224", "s").height, 224);
  EXPECT_EQ(ParseSize("224", "s").width, 224);
  EXPECT_EQ(ParseSize("160x224", "s").width, 224);
  EXPECT_TRUE(ParseSize("native", "s").native());
  EXPECT_FALSE(ParseSize("224", "s").native());
  for (const char* size : {"native", "160x224"}) EXPECT_EQ(ToText(ParseSize(size, "s")), size);
  for (const char* wrong :
       {"", "x", "0", "natives", "-1", "12q", "12x", "12x0", "12x13x14", "65537", "99999999999999999999"}) {
    try {
      ParseSize(wrong, "the size");
      ADD_FAILURE() << wrong;
    } catch (const Error& error) {
      EXPECT_TRUE(std::string(error.what()).starts_with("the size: ")) << error.what();
    }
  }
}

TEST(Parse, Lists) {
  using List = std::vector<int64_t>;
  EXPECT_EQ(ParseList("", 0, 3, "l"), List());
  EXPECT_EQ(ParseList("all", 1, 3, "l"), List({1, 2, 3}));
  EXPECT_EQ(ParseList("3,0,3", 0, 3, "l"), List({3, 0}));
  for (const char* wrong : {"4", "-1", "1,", ",1", "1;2", "a"}) EXPECT_THROW(ParseList(wrong, 0, 3, "l"), Error);
}

TEST(Parse, Windows) {
  EXPECT_EQ(ParseWindow("-10,4095.5", "w"), std::pair(-10.0, 4095.5));
  EXPECT_EQ(ParseWindow("lung", "w"), std::pair(-1350.0, 150.0));
  EXPECT_EQ(ParseWindow("brain", "w"), std::pair(0.0, 80.0));
  for (const char* wrong : {"", "1", "1,", "2,1", "1,1", "1,2,3", "nan,1"})
    EXPECT_THROW(ParseWindow(wrong, "w"), Error);
}

TEST(Parse, Precisions) {
  using simd::Precision;
  for (const Precision precision : {Precision::kFloat32, Precision::kBfloat16, Precision::kInt8}) {
    EXPECT_EQ(ParsePrecision(PrecisionName(precision), "p"), precision);
  }
  EXPECT_NE(ParsePrecision("auto", "p"), Precision::kInt8);
  EXPECT_THROW(ParsePrecision("fp64", "p"), Error);
}

TEST(JsonLine, CannotReachATerminalAsACommand) {
  EXPECT_EQ(JsonLine({{"a", "ä\n"}}), "{\"a\":\"ä\\n\"}");
  EXPECT_EQ(JsonLine("\x9b\xff"), "\"��\"");
  EXPECT_EQ(JsonLine("\u202e"), "\"\\u202e\"");
}

}  // namespace
}  // namespace qkv::app
