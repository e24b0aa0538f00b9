#include "qkv/app/texts/cross_rule.h"

#include <gtest/gtest.h>

#include "tests/support/errors.h"

namespace qkv::app {
namespace {

using nn::CrossRule, nn::CrossWeights;

TEST(CrossRules, AreReadAsWritten) {
  EXPECT_EQ(ParseCrossWeights("hard", "x"), (CrossWeights{.rule = CrossRule::kHard}));
  EXPECT_EQ(ParseCrossWeights("softmax=0.5", "x"), (CrossWeights{.temperature = 0.5}));
  EXPECT_EQ(ParseCrossWeights("gaussian", "x"), (CrossWeights{.rule = CrossRule::kGaussian}));
  EXPECT_EQ(ParseCrossWeights("gaussian=2.5", "x"), (CrossWeights{.rule = CrossRule::kGaussian, .bandwidth = 2.5}));
  EXPECT_EQ(ParseCrossWeights("gaussian=2,0.9:1.0", "x"),
            (CrossWeights{.rule = CrossRule::kGaussian, .bandwidth = 2, .slope = 0.9, .heads = {{1, 0}}}));
  EXPECT_EQ(ParseCrossWeights("uniform:0.3,12.1,0.3", "x"),
            (CrossWeights{.rule = CrossRule::kUniform, .heads = {{0, 3}, {12, 1}}}));
}

TEST(CrossRules, AreRefusedWithTheReason) {
  for (const auto& [text, why] : {std::pair<const char*, const char*>{"", "no such rule"},
                                  {"soft", "no such rule"},
                                  {"hard=1", "has no number"},
                                  {"uniform=", "has no number"},
                                  {"softmax", "has a temperature"},
                                  {"softmax=0", "above 0"},
                                  {"softmax=1e-9", "hard"},
                                  {"softmax=nan", "above 0"},
                                  {"gaussian=0", "above 0"},
                                  {"gaussian=-1", "above 0"},
                                  {"gaussian=inf", "above 0"},
                                  {"gaussian=x", "is a number"},
                                  {"gaussian=", "is a number"},
                                  {"gaussian=1,", "slope"},
                                  {"gaussian=1,-1", "slope"},
                                  {"gaussian=1,1e9", "per target token"},
                                  {"hard:", "heads are missing"},
                                  {"hard:1", "BLOCK.HEAD"},
                                  {"hard:1.2.3", "BLOCK.HEAD"},
                                  {"hard:-1.0", "BLOCK.HEAD"},
                                  {"hard:1.99999999999999999999", "BLOCK.HEAD"},
                                  {"hard:1.0,,", "BLOCK.HEAD"}}) {
    const std::string said = ErrorMessage([&, &rule = text] { ParseCrossWeights(rule, "--cross-weights"); });
    EXPECT_NE(said.find(why), std::string::npos) << text << ": " << said;
  }
}

TEST(CrossRules, AreDescribed) {
  EXPECT_EQ(DescribeCrossWeights({}), "");
  EXPECT_EQ(DescribeCrossWeights(ParseCrossWeights("hard:0.1,2.3", "x")),
            "cross-attention: hard look-up in heads 0.1, 2.3");
  EXPECT_EQ(DescribeCrossWeights(ParseCrossWeights("gaussian=2,0.875", "x")),
            "cross-attention: Gaussian of 2 source tokens around 0.875 per target token");
}

}  // namespace
}  // namespace qkv::app
