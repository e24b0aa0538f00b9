// The five steps against their formulas on a small picture.
#include "qkv/explore/smooth.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "qkv/explore/explorer.h"
#include "tests/support/errors.h"

namespace qkv::explore {
namespace {

// White on black: a bar in the second column of patches, 4 pixels each, and a grey patch.
Packet Picture() {
  Tensor<uint8_t> pixels({28, 28});
  for (int64_t y = 0; y < 28; ++y) {
    for (int64_t x = 4; x < 8; ++x) pixels[y * 28 + x] = 255;
  }
  for (int64_t y = 12; y < 16; ++y) {
    for (int64_t x = 16; x < 20; ++x) pixels[y * 28 + x] = 128;
  }
  return {io::Json::object(), {{"pixels", MakeArray(pixels)}}};
}

Packet Smooth(Explorer& explorer, io::Json json) {
  Packet request = Picture();
  request.json = std::move(json);
  return explorer.Call("smooth", request);
}

Explorer OfDigits() { return Explorer({.models = {{"digits", "", ""}}}); }

TEST(Smooth, GaussianWeightsFollowTheDistance) {
  Explorer explorer = OfDigits();
  const Packet answer = Smooth(explorer, {{"step", 0}, {"query", {3, 2}}, {"sigma", 1.5}});
  ASSERT_EQ(answer.Find("weights")->shape, (std::vector<int64_t>{1, 7, 7}));
  const auto weights = answer.Find("weights")->As<float>();
  double sum = 0;
  for (int y = 0; y < 7; ++y) {
    for (int x = 0; x < 7; ++x) sum += std::exp(-((y - 3) * (y - 3) + (x - 2) * (x - 2)) / 4.5);
  }
  for (int y = 0; y < 7; ++y) {
    for (int x = 0; x < 7; ++x) {
      EXPECT_NEAR(weights[static_cast<size_t>(7 * y + x)],
                  std::exp(-((y - 3) * (y - 3) + (x - 2) * (x - 2)) / 4.5) / sum, 1e-6);
    }
  }
  EXPECT_FALSE(answer.json["formula"].get<std::string>().empty());
}

// The bar's patches are equal: they share the weight. The grey patch finds itself alone.
TEST(Smooth, DictionariesFindWhatIsAlike) {
  Explorer explorer = OfDigits();
  const auto bar = Smooth(explorer, {{"step", 1}, {"query", {0, 1}}});
  const auto weights = bar.Find("weights")->As<float>();
  for (size_t i = 0; i < 49; ++i) EXPECT_NEAR(weights[i], i % 7 == 1 ? 1.0 / 7 : 0, 1e-6) << i;
  const auto mixed = bar.Find("mixed")->As<uint8_t>();
  ASSERT_EQ(mixed.size(), 48u);
  for (const uint8_t value : mixed) EXPECT_EQ(value, 255);
  const auto grey = Smooth(explorer, {{"step", 1}, {"query", {3, 4}}});
  EXPECT_EQ(grey.Find("weights")->As<float>()[3 * 7 + 4], 1);
  EXPECT_EQ(grey.Find("mixed")->As<uint8_t>()[0], 128);
  // Softly: white differs from grey by 127 in every pixel, black by 128.
  const auto soft = Smooth(explorer, {{"step", 2}, {"query", {3, 4}}, {"temperature", 0.1}});
  const auto shares = soft.Find("weights")->As<float>();
  const auto similarity = [](double difference) { return std::exp(-0.5 * difference * difference / 65025 / 0.1); };
  const double sum = 1 + 7 * similarity(127) + 41 * similarity(128);
  EXPECT_NEAR(shares[3 * 7 + 4], 1 / sum, 1e-5);
  EXPECT_NEAR(shares[1], similarity(127) / sum, 1e-5);
  EXPECT_NEAR(shares[0], similarity(128) / sum, 1e-5);
}

// One head, then all of them: the weights of a pass.
TEST(Smooth, HeadsAreThoseOfThePass) {
  Explorer explorer = OfDigits();
  Packet request = Picture();
  request.json = {{"blocks", {0}}};
  const Packet pass = explorer.Call("pass", request);
  const auto bytes = pass.Find("attention")->As<uint8_t>();
  const auto scales = pass.Find("scales")->As<float>();
  const size_t query = 1 + 7 * 2 + 1;
  const auto check = [&](std::span<const float> weights, size_t head) {
    for (size_t k = 0; k < 49; ++k) {
      const double part = bytes[(head * 50 + query) * 50 + 1 + k] / 255.0, scale = scales[head * 50 + query];
      EXPECT_NEAR(std::sqrt(weights[k]), std::sqrt(scale) * part, std::sqrt(scale) * (0.5 / 255 + 1e-4));
    }
  };
  const auto one = Smooth(explorer, {{"step", 3}, {"query", {2, 1}}, {"heads", {2}}});
  ASSERT_EQ(one.Find("weights")->shape, (std::vector<int64_t>{1, 7, 7}));
  check(one.Find("weights")->As<float>(), 2);
  const auto all = Smooth(explorer, {{"step", 4}, {"query", {2, 1}}});
  ASSERT_EQ(all.Find("weights")->shape, (std::vector<int64_t>{4, 7, 7}));
  for (size_t h = 0; h < 4; ++h) check(all.Find("weights")->As<float>().subspan(h * 49, 49), h);
}

TEST(Smooth, RefusesWhatIsNotThere) {
  Explorer explorer = OfDigits();
  for (const char* json : {R"({"step": 5, "query": [0, 0]})", R"({"step": 0, "query": [7, 0]})",
                           R"({"step": 0, "query": [0]})", R"({"step": 0, "query": 3})",
                           R"({"step": 0, "query": [0, 0], "sigma": 0})",
                           R"({"step": 3, "query": [0, 0], "heads": [4]})",
                           R"({"step": 3, "query": [0, 0], "heads": []})",
                           R"({"step": 2, "query": [0, 0], "temperature": -1})"}) {
    EXPECT_NE(ErrorMessage([&] { Smooth(explorer, io::Json::parse(json)); }), "") << json;
  }
}

}  // namespace
}  // namespace qkv::explore
