// What becomes of keys that a reader reads, knows, or does not know.
#include "qkv/io/fields.h"

#include <gtest/gtest.h>

#include <map>

#include "tests/support/errors.h"

namespace qkv::io {
namespace {

using Use = Setting::Use;

constexpr KnownKey kKnown[] = {
    {"torch_dtype"}, {"scale", "1|null"}, {"mode", "\"plain\"|\"none\""}, {"rope.fast", "32"}, {"unread", "{}"}};

std::map<std::string, Use> UsesOf(const Fields& fields) {
  std::map<std::string, Use> uses;
  for (const Setting& setting : fields.Settle({kKnown})) uses[setting.key] = setting.use;
  return uses;
}

TEST(Fields, UnknownKeysAreAnErrorIfAsked) {
  const Json json = {{"a", 1}, {"b", 2}};
  const Fields fields(json, "file.json");
  fields.Int("a", 0);
  EXPECT_EQ(ErrorMessage([&] { RequireKnown(fields.Settle({})); }),
            "settings that qkv does not know: \"b\" of file.json; take them out, or leave out --strict");
  fields.Int("b", 0);
  RequireKnown(fields.Settle({}));
}

TEST(Fields, SettleEveryKey) {
  const Json json = Json::parse(R"({"width": 8, "torch_dtype": "float16", "scale": 1.0, "mode": "none", "gone": null,
      "rope": {"base": 500, "fast": 32, "odd": 1}, "unread": {}, "names": {"0": "a"}, "_note": 1, "mystery": [1]})");
  const Fields fields(json, "config.json");
  EXPECT_EQ(fields.Int("width", 0), 8);
  EXPECT_EQ(fields.Object("rope").Number("base", 0), 500);
  EXPECT_EQ(fields.Object("names").json().size(), 1u);  // taken whole
  EXPECT_EQ(fields.Int("absent", 3), 3);
  EXPECT_EQ(UsesOf(fields), (std::map<std::string, Use>{{"width", Use::kUsed},
                                                        {"torch_dtype", Use::kNoEffect},
                                                        {"scale", Use::kNeutral},
                                                        {"mode", Use::kNeutral},
                                                        {"gone", Use::kUnknown},
                                                        {"rope.base", Use::kUsed},
                                                        {"rope.fast", Use::kNeutral},
                                                        {"rope.odd", Use::kUnknown},
                                                        {"unread", Use::kNeutral},
                                                        {"names", Use::kUsed},
                                                        {"_note", Use::kNoEffect},
                                                        {"mystery", Use::kUnknown}}));
  EXPECT_EQ(DescribeUnknown(fields.Settle({kKnown})),
            "settings that qkv does not know are passed over: \"gone\" of config.json, \"mystery\" of config.json, "
            "\"rope.odd\" of config.json");
}

TEST(Fields, RefuseWhatWouldHaveAnEffect) {
  for (const char* text : {R"({"scale": 2})", R"({"mode": "other"})", R"({"rope": {"base": 1, "fast": 31}})",
                           R"({"unread": {"a": 1}})", R"({"scale": "1"})"}) {
    const Json json = Json::parse(text);
    const Fields fields(json, "config.json");
    fields.Object("rope").Number("base", 0);
    const std::string message = ErrorMessage([&] { fields.Settle({kKnown}); });
    EXPECT_TRUE(message.starts_with("config.json: \"")) << text << ": " << message;
    EXPECT_NE(message.find("which qkv does not do: only"), std::string::npos) << message;
  }
}

TEST(Fields, AReadKeyIsTheReadersWhateverItsValue) {
  const Json json = Json::parse(R"({"scale": 2})");
  const Fields fields(json, "config.json");
  fields.Number("scale", 1);
  EXPECT_EQ(UsesOf(fields).at("scale"), Use::kUsed);
}

TEST(Fields, CopiesAndChangedOnesRememberTogether) {
  const Json json = Json::parse(R"({"a": 1, "b": 2, "c": {"d": 3}})");
  const Json changed = Json::parse(R"({"a": 5, "b": 2, "c": {"d": 3}})");
  const Fields fields(json, "config.json"), copy = fields, other = fields.With(changed);
  EXPECT_EQ(other.Int("a", 0), 5);
  EXPECT_EQ(copy.Object("c").Int("d", 0), 3);
  EXPECT_EQ(UsesOf(fields), (std::map<std::string, Use>{{"a", Use::kUsed}, {"b", Use::kUnknown}, {"c.d", Use::kUsed}}));
  // An object within is settled by itself, too.
  EXPECT_EQ(UsesOf(fields.Object("c")), (std::map<std::string, Use>{{"d", Use::kUsed}}));
}

TEST(Fields, ObjectsOfAListAreSettledTogether) {
  Json json = Json::parse(R"({"steps": [], "named": {}, "mixed": ["a", {"content": "b", "odd": 1}], "empty": []})");
  constexpr int kMany = 1000;
  for (int i = 0; i < kMany; ++i) {
    json["steps"].push_back({{"type", "x"}, {"scale", 1}});
    json["named"][std::to_string(i)] = {{"content", "x"}};
  }
  json["steps"][kMany - 1]["mystery"] = true;
  const Fields fields(json, "tokenizer.json");
  for (const Json& step : fields.List("steps")) fields.Item("steps", step).String("type", "");
  for (const Json& token : fields.Value("named")) EXPECT_EQ(fields.Item("named", token).String("content", ""), "x");
  EXPECT_EQ(fields.Item("mixed", fields.List("mixed")[1]).RequiredString("content"), "b");
  EXPECT_TRUE(fields.List("empty").empty());
  EXPECT_EQ(UsesOf(fields), (std::map<std::string, Use>{{"steps.type", Use::kUsed},
                                                        {"steps.scale", Use::kNeutral},
                                                        {"steps.mystery", Use::kUnknown},
                                                        {"named.content", Use::kUsed},
                                                        {"mixed.content", Use::kUsed},
                                                        {"mixed.odd", Use::kUnknown},
                                                        {"empty", Use::kUsed}}));
  EXPECT_EQ(fields.Settle({kKnown}).size(), 7u);  // once, not once an element
  json["steps"][kMany / 2]["scale"] = 2;          // any element counts
  EXPECT_NE(ErrorMessage([&] { fields.Settle({kKnown}); }).find("\"steps.scale\" is 2"), std::string::npos);
}

TEST(Fields, RequireKeysAndSayWhatToDo) {
  const Json json = Json::parse(R"({"name": 5, "list": {}, "gone": null, "step": {"deep": "x"}, "sampled": true})");
  const Fields fields(json, "t.json");
  EXPECT_EQ(ErrorMessage([&] { fields.RequiredString("gone"); }), "t.json: \"gone\" is missing");
  EXPECT_NE(ErrorMessage([&] { fields.RequiredString("name"); }).find("\"name\" is"), std::string::npos);
  EXPECT_NE(ErrorMessage([&] { fields.List("list"); }).find("expected a list"), std::string::npos);
  EXPECT_NE(ErrorMessage([&] { fields.Item("list", json["name"]); }).find("t.json: list: expected a JSON object"),
            std::string::npos);
  EXPECT_NE(ErrorMessage([&] { fields.Object("step").RequiredInt("deep"); }).find("t.json: step: \"deep\""),
            std::string::npos);
  constexpr KnownKey kAdvised[] = {{"sampled", "false", "save it without"}};
  EXPECT_TRUE(ErrorMessage([&] { fields.Settle({kAdvised}); }).ends_with("here; save it without"));
}

TEST(Fields, CutLongValuesAndLists) {
  Json json = {{"long", std::string(1000, 'x')}, {"list", Json::array()}};
  for (int i = 0; i < 1000; ++i) json["list"].push_back(i);
  for (int i = 0; i < 100; ++i) json[fmt::format("k{}", i)] = i;
  const std::vector<Setting> settings = Fields(json, "c").Settle({});
  for (const Setting& setting : settings) EXPECT_LT(setting.value.size(), 70u);
  EXPECT_TRUE(DescribeUnknown(settings).ends_with(" and 82 more")) << DescribeUnknown(settings);
}

}  // namespace
}  // namespace qkv::io
