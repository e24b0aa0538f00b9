#include "qkv/model/sequence/sampling.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <vector>

#include "qkv/core/error.h"

namespace qkv::model {
namespace {

// Of tokens that are 1/2, 1/4, 1/8, 1/16 and 1/16 probable, in another order.
const std::vector<float> kLogits = {std::log(2.f), std::log(8.f), std::log(1.f), std::log(4.f), std::log(1.f)};
constexpr double kProbabilities[] = {0.125, 0.5, 0.0625, 0.25, 0.0625};
constexpr int kDraws = 20'000;

std::map<int32_t, double> Frequencies(const SamplingSettings& settings) {
  TokenSampler sampler(settings);
  std::map<int32_t, double> frequencies;
  for (int i = 0; i < kDraws; ++i) ++frequencies[sampler.Draw<float>(kLogits)];
  for (auto& [token, count] : frequencies) count /= kDraws;
  return frequencies;
}

// Five standard deviations of a frequency.
void ExpectFrequencies(const std::map<int32_t, double>& got, const std::map<int32_t, double>& expected) {
  EXPECT_EQ(got.size(), expected.size());
  for (const auto& [token, p] : expected) {
    ASSERT_TRUE(got.contains(token)) << token;
    EXPECT_NEAR(got.at(token), p, 5 * std::sqrt(p * (1 - p) / kDraws)) << token;
  }
}

TEST(Sampling, GreedyTakesTheGreatestAndTheFirstOfEquals) {
  TokenSampler sampler({.temperature = 0});
  EXPECT_EQ(sampler.Draw<float>(kLogits), 1);
  const std::vector<double> equal = {1, 3, 3, 2};
  for (int i = 0; i < 10; ++i) EXPECT_EQ(sampler.Draw<double>(equal), 1);
}

TEST(Sampling, DrawsByProbability) {
  std::map<int32_t, double> expected;
  for (int32_t token = 0; token < 5; ++token) expected[token] = kProbabilities[token];
  ExpectFrequencies(Frequencies({.seed = 1}), expected);
}

// Probabilities squared, or their roots.
TEST(Sampling, TemperatureSharpensAndFlattens) {
  for (const double temperature : {0.5, 2.0}) {
    double sum = 0;
    for (const double p : kProbabilities) sum += std::pow(p, 1 / temperature);
    std::map<int32_t, double> expected;
    for (int32_t token = 0; token < 5; ++token) {
      expected[token] = std::pow(kProbabilities[token], 1 / temperature) / sum;
    }
    ExpectFrequencies(Frequencies({.temperature = temperature, .seed = 2}), expected);
  }
}

TEST(Sampling, TopKLeavesTheMostProbable) {
  ExpectFrequencies(Frequencies({.top_k = 1, .seed = 3}), {{1, 1.0}});
  ExpectFrequencies(Frequencies({.top_k = 2, .seed = 3}), {{1, 2.0 / 3}, {3, 1.0 / 3}});
  // Of the two least probable, which are equal, the first.
  ExpectFrequencies(Frequencies({.top_k = 4, .seed = 3}), {{1, 8.0 / 15}, {3, 4.0 / 15}, {0, 2.0 / 15}, {2, 1.0 / 15}});
  EXPECT_EQ(Frequencies({.top_k = 100, .seed = 3}).size(), 5u);
}

TEST(Sampling, TopPLeavesTheFewestThatSumToIt) {
  ExpectFrequencies(Frequencies({.top_p = 0.1, .seed = 4}), {{1, 1.0}});
  ExpectFrequencies(Frequencies({.top_p = 0.6, .seed = 4}), {{1, 2.0 / 3}, {3, 1.0 / 3}});
  EXPECT_EQ(Frequencies({.top_p = 0.9, .seed = 4}).size(), 4u);
  // Of what top-k left.
  ExpectFrequencies(Frequencies({.top_k = 3, .top_p = 0.57, .seed = 4}), {{1, 1.0}});
}

TEST(Sampling, IsAFunctionOfTheSeed) {
  const auto draw = [](uint64_t seed) {
    TokenSampler sampler({.top_k = 4, .seed = seed});
    std::vector<int32_t> tokens;
    for (int i = 0; i < 50; ++i) tokens.push_back(sampler.Draw<float>(kLogits));
    return tokens;
  };
  EXPECT_EQ(draw(7), draw(7));
  EXPECT_NE(draw(7), draw(8));
}

TEST(Sampling, RefusesWhatMakesNoSense) {
  for (const SamplingSettings& settings :
       {SamplingSettings{.temperature = -1}, SamplingSettings{.temperature = INFINITY}, SamplingSettings{.top_k = -1},
        SamplingSettings{.top_p = 0}, SamplingSettings{.top_p = 1.5}}) {
    EXPECT_THROW(TokenSampler{settings}, Error);
  }
  TokenSampler sampler({});
  const std::vector<float> broken = {1, std::numeric_limits<float>::quiet_NaN()}, infinite = {1, INFINITY};
  EXPECT_THROW(sampler.Draw<float>(broken), Error);
  EXPECT_THROW(sampler.Draw<float>(infinite), Error);
  EXPECT_THROW(sampler.Draw<float>({}), Error);
  // Far apart, the greater is certain.
  const std::vector<float> far = {-1e30f, 1e30f};
  EXPECT_EQ(sampler.Draw<float>(far), 1);
}

}  // namespace
}  // namespace qkv::model
