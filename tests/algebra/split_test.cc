// Notes 5 and 7: M back into balanced factors.
#include "qkv/algebra/split.h"

#include <numeric>

#include "qkv/algebra/spectrum.h"
#include "tests/algebra/support.h"

namespace qkv::algebra {
namespace {

QKV_HEAD_TEST_SUITE(SplitTest);

// Σ of the singular values of [W_Q b_Q]ᵀ[W_K b_K].
double NuclearNorm(const QueryKey& pair) {
  const auto s = SingularValues(Augment(pair.query), Augment(pair.key));
  return std::accumulate(s.begin(), s.end(), 0.0);
}

void ExpectBalanced(const QueryKey& pair, double tolerance) {
  const auto gram = [](const Tensor<double>& factor) { return Multiply(factor, Transposed(factor)); };
  const Tensor<double> q = gram(Augment(pair.query)), k = gram(Augment(pair.key));
  for (int64_t i = 0; i < q.dim(0); ++i) {
    for (int64_t j = 0; j < q.dim(1); ++j) {
      EXPECT_NEAR(*q.view().at(i, j), *k.view().at(i, j), tolerance);
      if (i != j) {
        EXPECT_NEAR(*q.view().at(i, j), 0, tolerance);
      }
    }
    if (i > 0) {
      EXPECT_LE(*q.view().at(i, i), *q.view().at(i - 1, i - 1) + tolerance);
    }
  }
}

TYPED_TEST(SplitTest, KnownFactorsGiveTheSameLogitsBalanced) {
  for (const Case& c : this->Cases()) {
    SCOPED_TRACE(c.name);
    const Tensor<double> exact = ExactLogits(c.pair, c.tokens, c.tokens, c.scale());
    const QueryKey split = Split(c.pair, Terms::kExact);
    EXPECT_EQ(split.query.weight.shape(), Shape({std::min(c.E(), c.D() + 1), c.D()}));
    // The scale is still the original's.
    EXPECT_LE(MaxDifference(Logits(split, c.tokens, c.tokens, c.scale()), exact), c.LogitTolerance(6));
    const double norm = SideNorm(c.pair.query) * SideNorm(c.pair.key);
    ExpectBalanced(split, StepTolerance(6, c.D(), norm));
    // The least norm of all pairs with this M: twice its nuclear norm.
    const double squares = std::pow(SideNorm(split.query), 2) + std::pow(SideNorm(split.key), 2);
    EXPECT_NEAR(squares, 2 * NuclearNorm(c.pair), StepTolerance(6, c.D(), c.E() * norm));
    EXPECT_LE(squares, std::pow(SideNorm(c.pair.query), 2) + std::pow(SideNorm(c.pair.key), 2));

    const QueryKey softmax = Split(c.pair, Terms::kSoftmax);
    EXPECT_TRUE(softmax.key.bias.empty());
    EXPECT_EQ(softmax.query.weight.shape(), Shape({std::min(c.E(), c.D()), c.D()}));
    EXPECT_LE(MaxDifference(Softmax(Logits(softmax, c.tokens, c.tokens, c.scale())), ExactSoftmax(exact)),
              c.AttentionTolerance(6));
  }
}

TYPED_TEST(SplitTest, TheMergedMatrixAloneGivesTheAttentionBack) {
  for (const Case& c : this->Cases()) {
    SCOPED_TRACE(c.name);
    const Tensor<double> exact = ExactLogits(c.pair, c.tokens, c.tokens, c.scale());
    const QueryKey split = Split(Merge(c.pair, Terms::kExact));
    EXPECT_LE(MaxDifference(Logits(split, c.tokens, c.tokens, c.scale()), exact), c.LogitTolerance(6));
    const QueryKey softmax = Split(Merge(c.pair, Terms::kSoftmax));
    EXPECT_TRUE(softmax.key.bias.empty());
    EXPECT_LE(MaxDifference(Softmax(Logits(softmax, c.tokens, c.tokens, c.scale())), ExactSoftmax(exact)),
              c.AttentionTolerance(6));

    // Without biases the rank is revealed; a greater width is filled with zeros, a smaller one refused.
    QueryKeyView bare = c.pair;
    bare.query.bias = bare.key.bias = {};
    const Merged merged = Merge(bare, Terms::kExact);
    EXPECT_EQ(Split(merged).query.weight.dim(0), c.rank);
    const QueryKey wide = Split(merged, c.rank + 3);
    ASSERT_EQ(wide.key.weight.shape(), Shape({c.rank + 3, c.D()}));
    for (int64_t i = c.rank * c.D(); i < wide.key.weight.size(); ++i) ASSERT_EQ(wide.key.weight[i], 0);
    EXPECT_LE(
        MaxDifference(Logits(wide, c.tokens, c.tokens, c.scale()), ExactLogits(bare, c.tokens, c.tokens, c.scale())),
        c.LogitTolerance(6));
    if (c.rank > 1) {
      EXPECT_THROW(Split(merged, c.rank - 1), Error);
    }
  }
}

TYPED_TEST(SplitTest, TheAttentionIsEqualTheWeightsAreNot) {
  for (const Case& c : this->Cases()) {
    SCOPED_TRACE(c.name);
    const QueryKey split = Split(c.pair, Terms::kExact);
    if (split.query.weight.shape() != c.pair.query.weight.shape()) continue;
    EXPECT_GT(MaxDifference(split.query.weight, c.pair.query.weight), 1e-3 * Norm(c.pair.query.weight));
  }
}

// A matrix that was rounded has full rank; told how far it was rounded, a split finds the pair behind it.
TEST(Split, WhatARoundedMatrixWasIsFound) {
  const Case c = RandomCase({4, 24, 4}, 3);
  const Merged exact = Merge(c.pair, Terms::kSoftmax);
  const Merged rounded{.matrix = Cast<double>(Cast<float>(exact.matrix)),
                       .key_term = Cast<double>(Cast<float>(exact.key_term))};
  const double u = UnitRoundoff<float>(), norm = std::hypot(Norm(exact.matrix), Norm(exact.key_term));
  EXPECT_THROW(Split(rounded, 4), Error);
  EXPECT_THROW(Split(rounded, 3, u), Error);
  const Merged back = Merge(Split(rounded, 4, u), Terms::kSoftmax);
  EXPECT_LE(Norm(Minus(back.matrix, exact.matrix)), 2 * u * norm);  // once by rounding, once by what is cut off
  EXPECT_LE(Norm(Minus(back.key_term, exact.key_term)), 2 * u * norm);
  EXPECT_EQ(Split(rounded, 0, u).query.weight.dim(0), 4);
}

TEST(Split, TheZeroMatrixHasOneRowOfZeros) {
  const Tensor<double> zero({3, 5});
  const QueryKeyView pair{{zero, {}}, {zero, {}}};
  const QueryKey split = Split(Merge(pair, Terms::kExact));
  EXPECT_EQ(split.query.weight.shape(), Shape({1, 5}));
  EXPECT_EQ(Norm(split.query.weight), 0);
  EXPECT_EQ(Norm(Split(pair, Terms::kExact).query.weight), 0);
}

TEST(Split, NoNumberIsRefused) {
  Tensor<double> w = Sampler(1).Normal<double>({3, 5});
  w[4] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THROW(Split(QueryKeyView{{w, {}}, {w, {}}}, Terms::kExact), Error);
}

}  // namespace
}  // namespace qkv::algebra
