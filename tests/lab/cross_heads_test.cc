// What heads of cross-attention do, where it is known: heads without queries, and heads that look at one token.
#include "qkv/lab/cross_heads.h"

#include <gtest/gtest.h>

#include <cmath>

#include "qkv/core/error.h"
#include "qkv/train/run/pair_model.h"
#include "tests/support/goldens.h"

namespace qkv::lab {
namespace {

class CrossHeads : public testing::Test {
 protected:
  CrossHeads()
      : checkpoint_(model::TextCheckpoint::Open(TextGoldenFolder("marian_trained"))),
        model_(checkpoint_),
        tokenizer_(train::OpenTokenizer(TextGoldenFolder("marian_trained"), train::TokensOfCheckpoint(checkpoint_))) {
    train::PairTexts texts;
    for (const auto& [source, target] : {std::pair<const char*, const char*>{"rot und blau", "blue and red"},
                                         {"Haus", "house"},
                                         {"das alte Kind", "the old child"}}) {
      texts.sources.emplace_back(source), texts.targets.emplace_back(target);
    }
    set_ = train::EncodePairs(texts, tokenizer_, 1000);
  }

  model::TextCheckpoint checkpoint_;
  model::TextModel model_;
  train::PairTokenizer tokenizer_;
  train::PairSet set_;
};

TEST_F(CrossHeads, AreAllMeasured) {
  const std::vector<CrossHead> heads = MeasureCrossHeads(model_, set_, tokenizer_);
  const model::SequenceConfig& c = model_.decoder().config();
  ASSERT_EQ(std::ssize(heads), c.depth * c.block.cross->heads);
  // The entropy of uniform weights is that of the sources' lengths, one for each token of a target.
  double uniform = 0, tokens = 0;
  for (int64_t i = 0; i < set_.size(); ++i) {
    const auto count = static_cast<double>(set_.target.length(i));
    uniform += count * std::log2(static_cast<double>(set_.source.length(i))), tokens += count;
  }
  for (const CrossHead& head : heads) {
    EXPECT_NEAR(head.uniform, uniform / tokens, 1e-12);
    EXPECT_GE(head.entropy, 0);
    EXPECT_LE(head.entropy, head.uniform + 1e-5);
    EXPECT_GE(head.distance, 0);
    for (const double share : {head.diagonal, head.end, head.punctuation}) {
      EXPECT_GE(share, 0);
      EXPECT_LE(share, 1);
    }
    EXPECT_LE(head.end + head.punctuation, 1 + 1e-12);
  }
}

TEST_F(CrossHeads, RefuseModelsWithoutCrossAttention) {
  const model::TextModel bert = model::TextModel::Load(TextGoldenFolder("bert")),
                         gpt = model::TextModel::Load(TextGoldenFolder("gpt2"));
  for (const model::TextModel* model : {&bert, &gpt}) {
    EXPECT_THROW(MeasureCrossHeads(*model, set_, tokenizer_), Error);
  }
  EXPECT_THROW(MeasureCrossHeads(model_, {}, tokenizer_), Error);
}

}  // namespace
}  // namespace qkv::lab
