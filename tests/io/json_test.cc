#include "qkv/io/json.h"

#include <gtest/gtest.h>

#include <bit>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <random>

#include "qkv/core/file.h"
#include "qkv/io/float_list.h"
#include "tests/io/support.h"
#include "tests/support/files.h"

namespace qkv::io {
namespace {

TEST(ParseJson, ReadsADocument) {
  const Json json = ParseJson(R"({"a": [1, -2, 3.5, "x", null, true], "a b": {"\u00e4": {}}})", "here");
  EXPECT_EQ(json["a"].size(), 6u);
  EXPECT_TRUE(json["a b"]["ä"].is_object());
}

TEST(ParseJson, SaysWhereAndWhy) {
  EXPECT_MESSAGE(ParseJson("{\n\"a\": x}", "config.json"), "config.json: not valid JSON: parse error at line 2");
  EXPECT_MESSAGE(ParseJson("", "config.json"), "config.json: not valid JSON");
  EXPECT_MESSAGE(ParseJson("\"\xFF\"", "here"), "not valid JSON");
  EXPECT_MESSAGE(ParseJson("1e999", "here"), "not valid JSON");
  EXPECT_MESSAGE(ParseJson(std::string_view("{}\0x", 4), "here"), "zero byte");
}

TEST(ParseJson, RefusesDeepNestingOfAnyKind) {
  const auto nested = [](int depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_NO_THROW(ParseJson(nested(64), "here"));
  EXPECT_MESSAGE(ParseJson(nested(65), "here"), "nested more than 64 deep");
  std::string tables;
  for (int i = 0; i < 1'000'000; ++i) tables += "{\"a\":";
  EXPECT_MESSAGE(ParseJson(tables, "here"), "nested more than 64 deep");
  // Brackets within strings do not count, whatever is escaped there.
  EXPECT_NO_THROW(ParseJson("\"" + std::string(100, '[') + "\\\"" + std::string(100, '{') + "\\\\\"", "here"));
}

TEST(ParseJson, ClipsItsMessages) {
  EXPECT_LT(ErrorMessage([] { ParseJson("\"" + std::string(1'000'000, 'a'), "here"); }).size(), 300u);
}

TEST(ReadJson, NamesTheFile) {
  const TemporaryFolder folder;
  WriteFile(folder / "a.json", "{");
  EXPECT_MESSAGE(ReadJson(folder / "a.json"), (folder / "a.json").string());
  EXPECT_MESSAGE(ReadJson(folder / "missing.json"), "missing.json");
  WriteFile(folder / "large.json", std::string((64 << 20) + 1, ' '));
  EXPECT_MESSAGE(ReadJson(folder / "large.json"), "at most");
}

TEST(ShortestDouble, HasTheFewestDigitsOfTheFloat) {
  EXPECT_EQ(Json(ShortestDouble(0.1F)).dump(), "0.1");
  EXPECT_EQ(Json(ShortestDouble(-6.018708869730674e-33F)).dump(), "-6.018709e-33");
  EXPECT_EQ(Json(ShortestDouble(16777216.0F)).dump(), "16777216.0");
  EXPECT_TRUE(std::isnan(ShortestDouble(NAN)));
  std::mt19937 random(1);
  size_t short_bytes = 0, long_bytes = 0;
  for (int i = 0; i < 100'000; ++i) {
    const auto value = std::bit_cast<float>(static_cast<uint32_t>(random()));
    if (!std::isfinite(value)) continue;
    const std::string text = Json(ShortestDouble(value)).dump();
    float read = 0;
    std::from_chars(text.data(), text.data() + text.size(), read);
    ASSERT_EQ(std::bit_cast<uint32_t>(read), std::bit_cast<uint32_t>(value)) << text;
    ASSERT_EQ(static_cast<float>(Json::parse(text).get<double>()), value) << text;
    short_bytes += text.size(), long_bytes += Json(value).dump().size();
  }
  EXPECT_LT(3 * short_bytes, 2 * long_bytes);
}

TEST(Quoted, ShowsNoControlCharacters) {
  EXPECT_EQ(fmt::format("{}", Quoted("blocks.0")), "\"blocks.0\"");
  EXPECT_EQ(fmt::format("{}", Quoted("a\"b\n\x1b[1m")), "\"a\\\"b\\n\\u001b[1m\"");
  EXPECT_EQ(fmt::format("{}", Quoted("\xFF")), "\"\\ufffd\"");
  EXPECT_LT(fmt::format("{}", Quoted(std::string(100000, 'a'))).size(), 140u);
}

}  // namespace
}  // namespace qkv::io
