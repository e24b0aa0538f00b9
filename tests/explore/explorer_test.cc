// Every call on the models that come with qkv, and requests that are none.
#include "qkv/explore/explorer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "qkv/app/attend.h"
#include "qkv/builtin/digits_model.h"
#include "qkv/inspect/rollout.h"
#include "tests/support/difference.h"
#include "tests/support/errors.h"
#include "tests/support/goldens.h"

namespace qkv::explore {
namespace {

Packet Request(io::Json json) { return {std::move(json), {}}; }

Explorer Digits() { return Explorer({.models = {{"digits", "", ""}}}); }

std::string Refusal(Explorer& explorer, const std::string& name, io::Json json) {
  return ErrorMessage([&] { explorer.Call(name, Request(std::move(json))); });
}

bool Has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(Explorer, TellsItsModels) {
  Explorer explorer({.models = {{"digits", "", "Digits"},
                                {"clip", GoldenFolder("towers/clip").string(), ""},
                                {"vit", GoldenFolder("timm_reg4_cls").string(), ""},
                                {"beit", GoldenFolder("hf_beit").string(), ""},
                                {"marian", (SourceFolder() / "models/english-italian").string(), ""},
                                {"none", "/nowhere/at/all", ""}}});
  const io::Json answer = explorer.Call("models", Packet()).json;
  ASSERT_EQ(answer["models"].size(), 6u);
  const io::Json& digits = answer["models"][0];
  EXPECT_EQ(digits["id"], "digits");
  EXPECT_EQ(digits["kind"], "image");
  EXPECT_EQ(digits["input"], io::Json({1, 28, 28}));
  EXPECT_EQ(digits["photo"], false);
  EXPECT_EQ(digits["grid"], io::Json({7, 7}));
  EXPECT_EQ(digits["prefix"], io::Json({"class"}));
  EXPECT_EQ(digits["blocks"], 4);
  EXPECT_EQ(digits["heads"], 4);
  EXPECT_EQ(digits["labels"].size(), 10u);
  EXPECT_EQ(digits["parameters"], 455050);
  EXPECT_EQ(digits["exact"], io::Json({"symmetry", "rank", "gauge", "head", "token"}));
  EXPECT_EQ(answer["models"][2]["prefix"].size(), 5u);
  EXPECT_EQ(answer["models"][3]["exact"], io::Json::array());
  EXPECT_EQ(answer["models"][4]["kind"], "pair");
  EXPECT_TRUE(Has(answer["models"][5].value("error", ""), "/nowhere/at/all"));
  EXPECT_EQ(answer["samples"].size(), 10u);
}

TEST(Explorer, ReadsEverySampleRight) {
  Explorer explorer = Digits();
  for (const Sample& sample : Samples()) {
    const Packet image = explorer.Call("image", Request({{"model", "digits"}, {"sample", sample.id}}));
    EXPECT_EQ(image.json["grid"], io::Json({7, 7}));
    EXPECT_GT(image.Find("png")->size(), 100);
    const Packet pass =
        explorer.Call("pass", Request({{"model", "digits"}, {"image", image.json["image"]}, {"blocks", io::Json::array()}}));
    EXPECT_EQ(pass.json["top"][0]["label"], sample.title);
    EXPECT_EQ(pass.json["top"].size(), 10u);
  }
}

// The weights as attend writes them, in bytes.
TEST(Explorer, AttentionIsThatOfAttend) {
  Explorer explorer = Digits();
  const std::string file = (SourceFolder() / "examples/digits/7-white.png").string();
  const model::Model model = builtin::DigitsModel();
  app::AttentionMapper mapper(model, {.layers = "all", .head = "all", .query = "all"});
  const app::AttentionMaps maps = mapper.Compute(file, {});
  std::string bytes;
  {
    Tensor<uint8_t> read;
    FILE* from = std::fopen(file.c_str(), "rb");
    bytes.resize(100000);
    bytes.resize(std::fread(bytes.data(), 1, bytes.size(), from));
    std::fclose(from);
  }
  Packet request = Request({{"model", "digits"}});
  request.arrays["file"] = MakeArray(bytes);
  for (const io::Json& edits : {io::Json(), io::Json::array({{{"kind", "symmetry"}, {"t", 1}}})}) {
    request.json["edits"] = edits;
    const Packet pass = explorer.Call("pass", request);
    const Array& attention = *pass.Find("attention");
    ASSERT_EQ(attention.shape, (std::vector<int64_t>{4, 4, 50, 50}));
    const auto scales = pass.Find("scales")->As<float>();
    const auto steps = attention.As<uint8_t>();
    for (size_t i = 0; i < steps.size(); ++i) {
      const double part = steps[i] / 255.0, scale = scales[i / 50];
      // Half a step of the root, and rounding.
      const double exact = maps.weights[static_cast<int64_t>(i)];
      EXPECT_NEAR(std::sqrt(scale) * part, std::sqrt(exact), std::sqrt(scale) * (0.5 / 255 + 1e-4));
    }
    const auto logits = pass.Find("logits")->As<float>();
    const Tensor<float> engine = model.Logits(model.Pixels(maps.photo));
    for (size_t i = 0; i < logits.size(); ++i) EXPECT_NEAR(logits[i], engine[static_cast<int64_t>(i)], 1e-4);
  }
}

TEST(Explorer, RolloutIsThatOfInspect) {
  Explorer explorer = Digits();
  const model::Model model = builtin::DigitsModel();
  const Packet image = explorer.Call("image", Request({{"sample", "digit-4"}}));
  const auto photo = image::Decode(std::as_bytes(std::span(Samples()[4].file)), {}, "test");
  model::Workspace<float> workspace;
  for (const double discard : {0.0, 0.6}) {
    const Tensor<float> expected = inspect::AttentionRollout<float>(
        model.vit(), model.Pixels(photo),
        {.first_block = 1, .last_block = 3, .discard = discard, .query = {inspect::Query::Kind::kAll, 0}}, workspace);
    // With edits that change nothing it is computed from the weights in memory.
    for (const io::Json& edits : {io::Json(), io::Json::array({{{"kind", "symmetry"}, {"t", 1}}})}) {
      const Packet rollout = explorer.Call(
          "rollout",
          Request({{"image", image.json["image"]}, {"start", 1}, {"discard", discard}, {"edits", edits}}));
      const auto weights = rollout.Find("weights")->As<float>();
      ASSERT_EQ(static_cast<int64_t>(weights.size()), expected.size());
      for (size_t i = 0; i < weights.size(); ++i) {
        EXPECT_NEAR(weights[i], expected[static_cast<int64_t>(i)], 1e-5) << discard;
      }
    }
  }
}

TEST(Explorer, KeepsImagesByTheirBytes) {
  Explorer explorer = Digits();
  const auto draw = [](int i) {
    Tensor<uint8_t> pixels({28, 28});
    pixels[300 + i] = 255;
    return Packet{{{"model", "digits"}}, {{"pixels", MakeArray(pixels)}}};
  };
  const io::Json first = explorer.Call("image", draw(0)).json["image"];
  EXPECT_EQ(explorer.Call("image", draw(0)).json["image"], first);
  EXPECT_NE(explorer.Call("image", draw(1)).json["image"], first);
  for (int i = 2; i < 15; ++i) explorer.Call("image", draw(i));
  EXPECT_EQ(Refusal(explorer, "pass", {{"image", first}}), "");
  for (int i = 15; i < 31; ++i) explorer.Call("image", draw(i));
  EXPECT_TRUE(Has(Refusal(explorer, "pass", {{"image", first}}), "send its bytes again"));
}

TEST(Explorer, EveryOtherCallAnswers) {
  Explorer explorer = Digits();
  const io::Json image = explorer.Call("image", Request({{"sample", "digit-8"}})).json["image"];
  const auto call = [&](const std::string& name, io::Json json) {
    json["image"] = image;
    return explorer.Call(name, Request(std::move(json)));
  };
  const Packet relevance = call("relevance", {{"class", 8}});
  EXPECT_EQ(relevance.Find("relevance")->shape, std::vector<int64_t>{50});
  const Packet pca = call("tokens", {{"block", 3}, {"what", "pca"}});
  EXPECT_EQ(pca.Find("colours")->shape, (std::vector<int64_t>{7, 7, 3}));
  const Packet similarity = call("tokens", {{"block", 0}, {"what", "similarity"}});
  EXPECT_NEAR(similarity.Find("similarity")->As<float>()[51], 1, 1e-5);
  const Packet heads = call("heads", {});
  EXPECT_EQ(heads.Find("singular")->shape, (std::vector<int64_t>{4, 4, 24}));
  EXPECT_EQ(heads.Find("ov_energy_rank")->shape, (std::vector<int64_t>{4, 4, 3}));
  const Packet gauge = call("gauge", {{"block", 2}, {"head", 1}, {"strength", 0.9}, {"seed", 4}});
  EXPECT_GT(gauge.json["change"][0].get<double>(), 0.3);
  EXPECT_LT(gauge.json["product"].get<double>(), 1e-5);
  EXPECT_LT(gauge.json["attention"].get<double>(), 1e-4);
  EXPECT_EQ(gauge.Find("wq2")->shape, (std::vector<int64_t>{24, 96}));
  const Packet knockout = call("knockout", {{"class", 8}, {"block", 3}});
  EXPECT_EQ(knockout.Find("change")->size(), 4);
  EXPECT_EQ(knockout.json["top"].size(), 4u);
  const Packet plan = call("plan", {{"queries", "all"}});
  EXPECT_GE(plan.json["rows"].size(), 3u);
  EXPECT_EQ(plan.Find("ratio")->shape, (std::vector<int64_t>{41, 48}));
}

TEST(Explorer, SaysWhatIsWrong) {
  Explorer explorer = Digits();
  EXPECT_TRUE(Has(Refusal(explorer, "paint", {}), "\"paint\" is no call"));
  EXPECT_TRUE(Has(Refusal(explorer, "pass", {{"model", "vit"}}), "there are digits"));
  EXPECT_TRUE(Has(Refusal(explorer, "pass", {{"model", 7}}), "expected a text"));
  EXPECT_TRUE(Has(Refusal(explorer, "pass", {}), "send an array"));
  const io::Json sample = {{"sample", "digit-1"}};
  const auto with = [&](const io::Json& more) {
    io::Json json = sample;
    json.update(more);
    return json;
  };
  EXPECT_TRUE(Has(Refusal(explorer, "pass", {{"sample", "nine"}}), "no sample"));
  EXPECT_TRUE(Has(Refusal(explorer, "pass", with({{"blocks", {4}}})), "from 0 to 3"));
  EXPECT_TRUE(Has(Refusal(explorer, "pass", with({{"blocks", "some"}})), "\"all\" or a list"));
  EXPECT_TRUE(Has(Refusal(explorer, "pass", with({{"edits", 1}})), "expected a list"));
  EXPECT_TRUE(Has(Refusal(explorer, "pass", with({{"edits", {{{"kind", "blur"}}}}})), "symmetry, rank"));
  EXPECT_TRUE(Has(Refusal(explorer, "pass", with({{"edits", {{{"kind", "symmetry"}, {"t", 2}}}}})), "from -1 to 1"));
  EXPECT_TRUE(Has(Refusal(explorer, "pass", with({{"edits", {{{"kind", "rank"}, {"rank", 25}}}}})), "from 1 to 24"));
  EXPECT_TRUE(Has(Refusal(explorer, "pass", with({{"edits", {{{"kind", "token"}, {"token", 50}}}}})), "from 0 to 49"));
  EXPECT_TRUE(Has(Refusal(explorer, "relevance", sample), "\"class\" is missing"));
  EXPECT_TRUE(Has(Refusal(explorer, "relevance", with({{"class", 10}})), "from 0 to 9"));
  EXPECT_TRUE(Has(Refusal(explorer, "tokens", with({{"block", 0}, {"what", "sound"}})), "\"pca\" or \"similarity\""));
  EXPECT_TRUE(Has(Refusal(explorer, "smooth", with({{"step", 0}})), "[row, column]"));
  EXPECT_TRUE(Has(Refusal(explorer, "words", with({{"text", "a digit"}})), "text tower"));
  EXPECT_TRUE(Has(Refusal(explorer, "translate", {{"text", "a digit"}}), "of images"));
  EXPECT_TRUE(Has(ErrorMessage([&] { Explorer({.models = {{"a", "", ""}, {"a", "", ""}}}); }), "two models"));
}

}  // namespace
}  // namespace qkv::explore
