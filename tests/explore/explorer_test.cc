// Every call on the models that come with qkv, and requests that are none.
#include "qkv/explore/explorer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "qkv/app/attention/attend.h"
#include "qkv/builtin/digits_model.h"
#include "qkv/core/pause.h"
#include "qkv/core/rng.h"
#include "qkv/explore/features.h"
#include "qkv/image/encode.h"
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
  Explorer explorer({.models = {{"digits", "", ""},
                                {"clip", GoldenFolder("towers/clip").string(), ""},
                                {"other", GoldenFolder("towers/clip").string(), ""},
                                {"vit", GoldenFolder("timm_reg4_cls").string(), ""},
                                {"beit", GoldenFolder("hf_beit").string(), ""},
                                {"marian", (SourceFolder() / "models/english-italian").string(), ""},
                                {"none", "/nowhere/at/all", ""}}});
  const io::Json answer = explorer.Call("models", Packet()).json;
  ASSERT_EQ(answer["models"].size(), 7u);
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
  // An id of its own is its title; else what comes with qkv has one, or the path gives it.
  EXPECT_EQ(digits["title"], "Digits");
  EXPECT_EQ(answer["models"][1]["kind"], "towers");
  EXPECT_EQ(answer["models"][1]["title"], "clip");
  EXPECT_EQ(answer["models"][2]["title"], "other");
  EXPECT_EQ(answer["models"][3]["prefix"].size(), 5u);
  EXPECT_EQ(answer["models"][4]["exact"], io::Json::array());
  EXPECT_EQ(answer["models"][5]["kind"], "pair");
  // What statements about a model are made of.
  EXPECT_EQ(digits["shipped"], "digits");
  EXPECT_EQ(digits["outputs"], 10);
  EXPECT_EQ(digits["directions"], 24);
  EXPECT_EQ(digits["query_bias"], true);
  EXPECT_EQ(digits["qk_norm"], false);
  EXPECT_EQ(digits["positions"], io::Json({"added"}));
  EXPECT_EQ(answer["models"][4]["positions"], io::Json({"relative"}));
  EXPECT_EQ(answer["models"][3]["shipped"], "");
  EXPECT_TRUE(Has(answer["models"][6].value("error", ""), "/nowhere/at/all"));
  EXPECT_EQ(answer["samples"].size(), 10u);
}

TEST(Explorer, ReadsEverySampleRight) {
  Explorer explorer = Digits();
  for (const Sample& sample : Samples()) {
    const Packet image = explorer.Call("image", Request({{"model", "digits"}, {"sample", sample.id}}));
    EXPECT_EQ(image.json["grid"], io::Json({7, 7}));
    EXPECT_GT(image.Find("png")->size(), 100);
    const Packet pass = explorer.Call(
        "pass", Request({{"model", "digits"}, {"image", image.json["image"]}, {"blocks", io::Json::array()}}));
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
          "rollout", Request({{"image", image.json["image"]}, {"start", 1}, {"discard", discard}, {"edits", edits}}));
      const auto weights = rollout.Find("weights")->As<float>();
      ASSERT_EQ(static_cast<int64_t>(weights.size()), expected.size());
      for (size_t i = 0; i < weights.size(); ++i) {
        EXPECT_NEAR(weights[i], expected[static_cast<int64_t>(i)], 1e-5) << discard;
      }
    }
  }
}

TEST(Explorer, KeepsImagesByTheirBytes) {
  constexpr int64_t kMemory = 100'000;  // of a dozen drawings
  Explorer explorer({.models = {{"digits", "", ""}}, .image_memory = kMemory});
  const auto draw = [](int i) {
    Tensor<uint8_t> pixels({28, 28});
    pixels[300 + i] = 255;
    return Packet{{{"model", "digits"}}, {{"pixels", MakeArray(pixels)}}};
  };
  const io::Json first = explorer.Call("image", draw(0)).json["image"];
  EXPECT_EQ(explorer.Call("image", draw(0)).json["image"], first);
  EXPECT_NE(explorer.Call("image", draw(1)).json["image"], first);
  EXPECT_EQ(Refusal(explorer, "pass", {{"image", first}}), "");
  for (int i = 2; i < 60; ++i) {
    explorer.Call("image", draw(i));
    EXPECT_LE(explorer.image_bytes(), kMemory);
  }
  EXPECT_TRUE(Has(Refusal(explorer, "pass", {{"image", first}}), "not kept any more; send its bytes again"));
}

// A class at one server: nobody's picture goes while the others draw.
TEST(Explorer, KeepsTheImagesOfManyClients) {
  Explorer explorer = Digits();
  std::vector<io::Json> ids;
  for (int i = 0; i < 200; ++i) {
    Tensor<uint8_t> pixels({28, 28});
    pixels[300 + i] = 255;
    ids.push_back(explorer.Call("image", Packet{{{"model", "digits"}}, {{"pixels", MakeArray(pixels)}}}).json["image"]);
  }
  for (const io::Json& id : ids) EXPECT_EQ(Refusal(explorer, "image", {{"image", id}}), "");
}

// A photo is decoded for each model that reads it, and not kept.
TEST(Explorer, DropsDecodedPhotos) {
  image::Image photo{Tensor<uint8_t>({1500, 2000, 3})};
  for (int64_t i = 0; i < photo.pixels.size(); ++i) photo.pixels[i] = static_cast<uint8_t>(i / 6000 * 3 % 251);
  Explorer explorer({.models = {{"vit", GoldenFolder("hf_vit_labels").string(), ""},
                                {"other", GoldenFolder("timm_reg4_cls").string(), ""}}});
  Packet request = Request({{"model", "vit"}});
  request.arrays["file"] = MakeArray(image::EncodePng(photo));
  const Packet first = explorer.Call("image", request);
  EXPECT_EQ(first.json["photo"], io::Json({1500, 2000}));
  EXPECT_LT(explorer.image_bytes(), photo.pixels.size() / 4);
  const Packet other = explorer.Call("image", Request({{"model", "other"}, {"image", first.json["image"]}}));
  EXPECT_EQ(other.json["photo"], first.json["photo"]);
  EXPECT_EQ(other.Find("png")->bytes, first.Find("png")->bytes);
  const Packet pass = explorer.Call("pass", Request({{"model", "vit"}, {"image", first.json["image"]}}));
  EXPECT_FALSE(pass.json["top"].empty());
}

TEST(Explorer, AdmitsPhotosBeforeItDecodesThem) {
  Explorer explorer = Digits();
  const Packet request = Request({{"sample", "digit-3"}});
  const auto model = explorer.Load(request);
  int64_t asked = 0;
  EXPECT_THROW(explorer.Call("image", request, model,
                             [&](int64_t pixels) {
                               asked = pixels;
                               Fail("full");
                             }),
               Error);
  EXPECT_GT(asked, 0);
  EXPECT_EQ(explorer.Call("image", request, model).json["grid"], io::Json({7, 7}));
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

// Whatever the family: a pass, one with each edit that it can have, rollout, features; and relevance of a class.
TEST(Explorer, AnswersForEveryFamily) {
  Tensor<uint8_t> pixels({44, 52, 3});
  for (int64_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<uint8_t>(i * 37 % 251);
  int models = 0;
  for (const std::string& name : GoldenNames()) {
    Explorer explorer({.models = {{name, GoldenFolder(name).string(), ""}}});
    const io::Json facts = explorer.Call("models", Packet()).json["models"][0];
    ASSERT_FALSE(facts.contains("error")) << name << facts["error"];
    Packet request;
    request.arrays["pixels"] = MakeArray(pixels);
    Packet image;
    try {
      image = explorer.Call("image", request);
    } catch (const Error& error) {  // goldens without preprocessing, or for other images
      EXPECT_FALSE(name.starts_with("timm")) << name << error.what();
      continue;
    }
    ++models;
    const auto call = [&](const std::string& what, io::Json json) {
      json["image"] = image.json["image"];
      return explorer.Call(what, Request(std::move(json)));
    };
    const Packet plain = call("pass", io::Json::object());
    const int64_t L = facts["blocks"], H = facts["heads"], N = plain.Find("scales")->shape[2];
    EXPECT_EQ(plain.Find("attention")->shape, (std::vector<int64_t>{L, H, N, N})) << name;
    // What is no probability is not called one.
    EXPECT_EQ(plain.json["top"].empty(), !facts["classifier"].get<bool>()) << name;
    for (const char* array : {"logits", "scores"}) {
      EXPECT_EQ(plain.Find(array) != nullptr, facts["classifier"].get<bool>()) << name << array;
    }
    const Array* outputs = plain.Find(facts["classifier"] ? "logits" : "embedding");
    ASSERT_NE(outputs, nullptr) << name;
    EXPECT_EQ(outputs->size(), facts["outputs"]) << name;
    if (facts["attention"] == "differential") {
      EXPECT_NE(ErrorMessage([&] { call("rollout", io::Json::object()); }).find("may be negative"), std::string::npos);
    } else {
      EXPECT_EQ(call("rollout", io::Json::object()).Find("weights")->shape, (std::vector<int64_t>{N, N})) << name;
    }
    EXPECT_EQ(call("tokens", {{"block", L - 1}}).Find("colours")->shape[2], 3) << name;
    if (facts["exact"].empty()) {
      EXPECT_NE(ErrorMessage([&] { call("pass", {{"edits", {{{"kind", "head"}, {"block", 0}, {"head", 0}}}}}); }), "");
      continue;
    }
    for (const io::Json& listed : facts["exact"]) {
      const std::string kind = listed;
      io::Json edit = {{"kind", kind}};
      if (kind == "symmetry") edit["t"] = 0.5;
      if (kind == "rank") edit["rank"] = 1;
      if (kind == "head") edit["block"] = L - 1, edit["head"] = H - 1;
      if (kind == "token") edit["token"] = N - 1;
      const Packet edited = call("pass", {{"edits", io::Json::array({edit})}});
      EXPECT_EQ(edited.Find("attention")->shape, plain.Find("attention")->shape) << name << kind;
    }
    if (facts["classifier"]) {
      EXPECT_EQ(call("relevance", {{"class", 0}}).Find("relevance")->size(), N) << name;
      continue;
    }
    const Packet knockout = call("knockout", {{"block", L - 1}});
    EXPECT_EQ(knockout.Find("cosine")->size(), H) << name;
    EXPECT_FALSE(knockout.json.contains("top")) << name;
    EXPECT_TRUE(knockout.Find("change") == nullptr) << name;
  }
  EXPECT_GE(models, 100);
}

// The cosine of a head without which nothing changes is 1, and that of others is of the passes themselves.
TEST(Explorer, KnockoutComparesTheEmbeddingsOfModelsWithoutClasses) {
  Explorer explorer({.models = {{"dino", GoldenFolder("hf_dinov2_model").string(), ""}}});
  Tensor<uint8_t> pixels({40, 40, 3});
  for (int64_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<uint8_t>(i * 37 % 251);
  const auto call = [&](const std::string& what, io::Json json) {
    Packet request = Request(std::move(json));
    request.arrays["pixels"] = MakeArray(pixels);
    return explorer.Call(what, request);
  };
  const Packet plain = call("pass", io::Json::object());
  const auto before = plain.Find("embedding")->As<float>();
  const Packet knockout = call("knockout", {{"block", 0}});
  const auto cosines = knockout.Find("cosine")->As<float>();
  for (size_t head = 0; head < cosines.size(); ++head) {
    const Packet without =
        call("pass", {{"blocks", io::Json::array()}, {"edits", {{{"kind", "head"}, {"block", 0}, {"head", head}}}}});
    EXPECT_NEAR(cosines[head], Cosine(without.Find("embedding")->As<float>(), before), 1e-5);
    EXPECT_LT(cosines[head], 1 - 1e-6) << "this head matters";
  }
  // One that is out already changes nothing more.
  const io::Json out = {{{"kind", "head"}, {"block", 0}, {"head", 0}}};
  EXPECT_NEAR(call("knockout", {{"block", 0}, {"edits", out}}).Find("cosine")->As<float>()[0], 1, 1e-6);
  EXPECT_TRUE(Has(ErrorMessage([&] { call("knockout", {{"block", 0}, {"class", 3}}); }), "has no classes"));
}

// The engine's scores are those of its list of classes, all of them.
TEST(Explorer, PassGivesAScoreToEveryClass) {
  Explorer explorer = Digits();
  const Packet pass = explorer.Call("pass", Request({{"sample", "digit-4"}}));
  const auto scores = pass.Find("scores")->As<float>();
  ASSERT_EQ(scores.size(), 10u);
  EXPECT_NEAR(std::accumulate(scores.begin(), scores.end(), 0.0F), 1, 1e-5);
  for (const io::Json& each : pass.json["top"]) EXPECT_EQ(scores[each["index"].get<size_t>()], each["score"]);
}

// Above its memory it drops all but the model of the last call, and builds it again.
TEST(Explorer, DropsModelsAboveItsMemory) {
  Explorer explorer({.models = {{"digits", "", ""}, {"small", GoldenFolder("timm_grey").string(), ""}}, .memory = 1});
  const auto logits = [&](const std::string& model) {
    const Packet pass = explorer.Call("pass", Request({{"model", model}, {"sample", "digit-5"}}));
    const auto values = pass.Find("logits")->As<float>();
    return std::vector<float>(values.begin(), values.end());
  };
  const auto digits = logits("digits"), small = logits("small");
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(logits("digits"), digits);
    EXPECT_EQ(logits("small"), small);
  }
}

// Members of any type: an answer or an Error.
TEST(Explorer, RequestsOfAnyShapeAreAnsweredOrRefused) {
  Explorer explorer = Digits();
  const std::vector<io::Json> values = {nullptr,
                                        true,
                                        -1,
                                        0,
                                        3,
                                        1e300,
                                        0.5,
                                        "all",
                                        "x",
                                        io::Json::array(),
                                        io::Json::object(),
                                        {1, 2},
                                        {{"kind", "rank"}, {"rank", 2}},
                                        {{{"kind", "head"}}},
                                        {{{"kind", "symmetry"}, {"t", 0.5}, {"blocks", {1, 1, 0}}}}};
  const std::vector<std::string> keys = {
      "model", "image",       "sample", "blocks", "edits",   "class", "block",   "what",     "head", "seed", "query",
      "step",  "temperature", "sigma",  "heads",  "queries", "start", "discard", "strength", "text", "rule", "target"};
  Rng rng(11);
  int answered = 0, refused = 0;
  for (const std::string& call : Explorer::Calls()) {
    for (int i = 0; i < 60; ++i) {
      io::Json json = {{"sample", "digit-2"}, {"block", 1}, {"class", 3}, {"head", 0}, {"query", {1, 1}}, {"step", 1}};
      for (uint64_t n = 1 + rng.Next() % 3; n > 0; --n) {
        json[keys[rng.Next() % keys.size()]] = values[rng.Next() % values.size()];
      }
      try {
        explorer.Call(call, Encode(Request(json)));
        ++answered;
      } catch (const Error&) {
        ++refused;
      }
    }
  }
  EXPECT_GT(answered, 100);
  EXPECT_GT(refused, 100);
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
  EXPECT_TRUE(Has(Refusal(explorer, "translate", {{"text", "a digit"}}), "an image model"));
  EXPECT_TRUE(Has(ErrorMessage([&] { Explorer({.models = {{"a", "", ""}, {"a", "", ""}}}); }), "two models"));
}

TEST(Explorer, LetsOthersGoBetweenSteps) {
  int pauses = 0;
  const PauseScope scope([&] { ++pauses; });
  Explorer explorer = Digits();
  const auto pauses_of = [&](const char* name, io::Json json) {
    json["sample"] = explorer.Models().json["samples"][0]["id"];
    pauses = 0;
    explorer.Call(name, Request(std::move(json)));
    return pauses;
  };
  pauses_of("image", {});
  EXPECT_EQ(pauses_of("knockout", {{"class", 8}, {"block", 3}}), (4 + 1) * 4);  // heads and all of them, blocks
  EXPECT_EQ(pauses_of("relevance", {{"class", 8}}), 2 * 4);
  EXPECT_EQ(pauses_of("heads", {}), 4);
  // Passes of the engine.
  EXPECT_EQ(pauses_of("pass", {{"blocks", "all"}}), 4);
  EXPECT_EQ(pauses_of("tokens", {{"block", 2}}), 3);
  EXPECT_GE(pauses_of("rollout", {}), 3);
  Tensor<uint8_t> drawing({28, 28});
  pauses = 0;
  explorer.Call("image", Packet{{{"model", "digits"}}, {{"pixels", MakeArray(drawing)}}});
  EXPECT_EQ(pauses, 2) << "between decoding, preparing and the picture for the page";
}

}  // namespace
}  // namespace qkv::explore
