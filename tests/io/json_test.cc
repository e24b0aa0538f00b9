#include "qkv/io/json.h"

#include <gtest/gtest.h>

#include "qkv/core/file.h"
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

TEST(Quoted, ShowsNoControlCharacters) {
  EXPECT_EQ(fmt::format("{}", Quoted("blocks.0")), "\"blocks.0\"");
  EXPECT_EQ(fmt::format("{}", Quoted("a\"b\n\x1b[1m")), "\"a\\\"b\\n\\u001b[1m\"");
  EXPECT_EQ(fmt::format("{}", Quoted("\xFF")), "\"\\ufffd\"");
  EXPECT_LT(fmt::format("{}", Quoted(std::string(100000, 'a'))).size(), 140u);
}

}  // namespace
}  // namespace qkv::io
