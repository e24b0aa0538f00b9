// The translator that comes with qkv: its text, and cross-attention by other rules.
#include "qkv/explore/translation.h"

#include <gtest/gtest.h>

#include <cmath>

#include "qkv/explore/explorer.h"
#include "tests/support/errors.h"
#include "tests/support/files.h"

namespace qkv::explore {
namespace {

Explorer WithTranslator() {
  return Explorer(
      {.models = {{"digits", "", ""}, {"translator", (SourceFolder() / "models/english-italian").string(), ""}}});
}

Packet Translate(Explorer& explorer, io::Json json) {
  json["model"] = "translator";
  return explorer.Call("translate", Packet{std::move(json), {}});
}

// Row sums, from bytes: within half a step of the root for each weight.
double RowSum(const Packet& answer, size_t row) {
  const Array& attention = *answer.Find("attention");
  const auto N = static_cast<size_t>(attention.shape[3]);
  double sum = 0;
  for (size_t k = 0; k < N; ++k) {
    const double part = attention.As<uint8_t>()[row * N + k] / 255.0;
    sum += answer.Find("scales")->As<float>()[row] * part * part;
  }
  return sum;
}

TEST(Translate, ShowsWhatEachWordReads) {
  Explorer explorer = WithTranslator();
  const Packet answer = Translate(explorer, {{"text", "library for reading images"}});
  EXPECT_FALSE(answer.json["text"].get<std::string>().empty());
  const Array& attention = *answer.Find("attention");
  ASSERT_EQ(attention.shape.size(), 4u);
  EXPECT_EQ(attention.shape[2], static_cast<int64_t>(answer.json["rows"].size()));
  EXPECT_EQ(attention.shape[3], static_cast<int64_t>(answer.json["columns"].size()));
  const auto rows = static_cast<size_t>(attention.size() / attention.shape[3]);
  for (size_t row = 0; row < rows; ++row) EXPECT_NEAR(RowSum(answer, row), 1, 0.05);
  EXPECT_EQ(answer.json["rule"], "");
}

TEST(Translate, OtherRulesTakeTheSoftmaxsPlace) {
  Explorer explorer = WithTranslator();
  const io::Json text = "library for reading images";
  const std::string plain = Translate(explorer, {{"text", text}}).json["text"];
  const Packet uniform = Translate(explorer, {{"text", text}, {"rule", "uniform"}});
  EXPECT_NE(uniform.json["text"], plain);
  EXPECT_NE(uniform.json["rule"], "");
  for (const uint8_t byte : uniform.Find("attention")->As<uint8_t>()) EXPECT_EQ(byte, 255);
  const Packet hard = Translate(explorer, {{"text", text}, {"rule", "hard"}});
  for (const uint8_t byte : hard.Find("attention")->As<uint8_t>()) EXPECT_TRUE(byte == 0 || byte == 255);
  // With its own words given, the text stays whatever the rule.
  const Packet given = Translate(explorer, {{"text", text}, {"rule", "uniform"}, {"target", plain}});
  EXPECT_EQ(given.json["text"], plain);
}

TEST(Translate, RefusesWhatItCannot) {
  Explorer explorer = WithTranslator();
  EXPECT_NE(ErrorMessage([&] { Translate(explorer, io::Json::object()); }), "");
  EXPECT_NE(ErrorMessage([&] { Translate(explorer, {{"text", "  "}}); }), "");
  EXPECT_NE(ErrorMessage([&] { Translate(explorer, {{"text", "a"}, {"rule", "softest"}}); }), "");
  EXPECT_NE(ErrorMessage([&] { Translate(explorer, {{"text", std::string(100000, 'a')}}); }), "");
  Packet pass;
  pass.json = {{"model", "translator"}, {"sample", "digit-1"}};
  const std::string message = ErrorMessage([&] { explorer.Call("pass", pass); });
  EXPECT_NE(message.find("a text model"), std::string::npos) << message;
}

}  // namespace
}  // namespace qkv::explore
