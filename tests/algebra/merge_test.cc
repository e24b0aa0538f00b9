// Notes 1, 2, 5 and 12: one matrix in place of two, with and without biases.
#include "qkv/algebra/merge.h"

#include "tests/algebra/support.h"

namespace qkv::algebra {
namespace {

QKV_HEAD_TEST_SUITE(MergeTest);

TYPED_TEST(MergeTest, ExactTermsGiveTheLogitsWithAnySetOfBiases) {
  for (const Case& c : this->Cases()) {
    SCOPED_TRACE(c.name);
    for (const bool query_bias : {false, true}) {
      for (const bool key_bias : {false, true}) {
        QueryKeyView pair = c.pair;
        if (!query_bias) pair.query.bias = {};
        if (!key_bias) pair.key.bias = {};
        const Merged merged = Merge(pair, Terms::kExact);
        EXPECT_EQ(merged.key_term.empty(), !query_bias);
        EXPECT_EQ(merged.query_term.empty(), !key_bias);
        const Tensor<double> exact = ExactLogits(pair, c.tokens, c.tokens, c.scale());
        EXPECT_LE(MaxDifference(Logits(merged, c.tokens, c.tokens, c.scale()), exact), c.LogitTolerance(3));
        EXPECT_LE(MaxDifference(Logits(pair, c.tokens, c.tokens, c.scale()), exact), c.LogitTolerance(3));
      }
    }
  }
}

TYPED_TEST(MergeTest, SoftmaxDoesNotSeeTheTermsOfTheKeysBias) {
  for (const Case& c : this->Cases()) {
    SCOPED_TRACE(c.name);
    const Merged merged = Merge(c.pair, Terms::kSoftmax);
    EXPECT_TRUE(merged.query_term.empty());
    EXPECT_EQ(merged.constant, 0);
    const Tensor<double> exact = ExactLogits(c.pair, c.tokens, c.tokens, c.scale());
    const Tensor<double> logits = Logits(merged, c.tokens, c.tokens, c.scale());
    EXPECT_LE(MaxSpread(logits, exact), 2 * c.LogitTolerance(3));
    EXPECT_LE(MaxDifference(Softmax(logits), ExactSoftmax(exact)), c.AttentionTolerance(3));
    // The logits themselves are others, and without u the attention is another.
    if (this->kTrained) continue;
    EXPECT_GT(MaxDifference(logits, exact), 1e2 * c.LogitTolerance(3));
    Merged without_u = Merge(c.pair, Terms::kSoftmax);
    without_u.key_term = {};
    EXPECT_GT(MaxSpread(Logits(without_u, c.tokens, c.tokens, c.scale()), exact), 1e2 * c.LogitTolerance(3));
  }
}

TYPED_TEST(MergeTest, TheAttentionIsPyTorchs) {
  if (!this->kTrained) GTEST_SKIP() << "random heads have no original";
  for (const Case& c : this->Cases()) {
    SCOPED_TRACE(c.name);
    const Tensor<double> attention = Softmax(Logits(Merge(c.pair, Terms::kSoftmax), c.tokens, c.tokens, c.scale()));
    const double float32 = UnitRoundoff<float>() / UnitRoundoff<double>();
    EXPECT_LE(MaxDifference(attention, c.attention), (1 + float32) * c.AttentionTolerance(3));
  }
}

TYPED_TEST(MergeTest, OnesAppendedToTheTokensHoldAllFourTerms) {
  for (const Case& c : this->Cases()) {
    SCOPED_TRACE(c.name);
    const Tensor<double> query = Augment(c.pair.query), key = Augment(c.pair.key), ones = AppendOnes(c.tokens);
    const Merged merged = Merge({{query, {}}, {key, {}}}, Terms::kExact);
    ASSERT_EQ(merged.matrix.shape(), Shape({c.D() + 1, c.D() + 1}));
    EXPECT_LE(MaxDifference(Logits(merged, ones, ones, c.scale()), ExactLogits(c.pair, c.tokens, c.tokens, c.scale())),
              c.LogitTolerance(3));
    // Its last column and row are w, u and c.
    const Merged terms = Merge(c.pair, Terms::kExact);
    const double tolerance = StepTolerance(2, c.E(), SideNorm(c.pair.query) * SideNorm(c.pair.key));
    for (int64_t d = 0; d < c.D(); ++d) {
      EXPECT_NEAR(*merged.matrix.view().at(d, c.D()), terms.query_term[d], tolerance);
      EXPECT_NEAR(*merged.matrix.view().at(c.D(), d), terms.key_term[d], tolerance);
    }
    EXPECT_NEAR(*merged.matrix.view().at(c.D(), c.D()), terms.constant, tolerance);
  }
}

TYPED_TEST(MergeTest, TheKeysBiasHasNoGradientAndNoEffect) {
  for (const Case& c : this->Cases()) {
    SCOPED_TRACE(c.name);
    const auto upstream = Sampler(5).Normal<double>({c.N(), c.N()});
    const Tensor<double> gradient = KeyBiasGradient(c.pair, c.tokens, c.tokens, c.scale(), upstream);
    // Each row's terms of ∂S, of magnitude 2 |A||G|, cancel; then they meet q.
    const double query_norm = Norm(Project(c.pair.query, c.tokens));
    const double tolerance = StepTolerance(3, c.N(), 2 * c.scale() * query_norm * Norm(upstream));
    for (const double g : gradient.span()) EXPECT_NEAR(g, 0, tolerance);

    QueryKeyView other = c.pair;
    const Tensor<double> bias = Sampler(6).Normal<double>({c.E()});
    other.key.bias = bias;
    EXPECT_LE(MaxDifference(ExactSoftmax(ExactLogits(other, c.tokens, c.tokens, c.scale())),
                            ExactSoftmax(ExactLogits(c.pair, c.tokens, c.tokens, c.scale()))),
              1e-10);
  }
}

TYPED_TEST(MergeTest, TheShareOfTheKeysBiasIsItsPartOfTheLogits) {
  for (const Case& c : this->Cases()) {
    SCOPED_TRACE(c.name);
    QueryKeyView without = c.pair;
    without.key.bias = {};
    EXPECT_EQ(KeyBiasShare(without, c.tokens, c.tokens), 0);
    const Tensor<double> S = ExactLogits(c.pair, c.tokens, c.tokens, 1);
    const double part = Norm(Minus(S, ExactLogits(without, c.tokens, c.tokens, 1)));
    EXPECT_NEAR(KeyBiasShare(c.pair, c.tokens, c.tokens) * Norm(S), part,
                c.N() * c.LogitTolerance(3) / c.scale() * (1 + part / Norm(S)));
  }
}

TYPED_TEST(MergeTest, ValuesAndOutputMerge) {
  for (const Case& c : this->Cases()) {
    SCOPED_TRACE(c.name);
    const MergedOutput merged = MergeOutput(c.value, c.output);
    const Tensor<double> attention = ExactSoftmax(ExactLogits(c.pair, c.tokens, c.tokens, c.scale()));
    const double tolerance = StepTolerance(3, c.largest(), TokenNorm(c.tokens) * SideNorm(c.value) * Norm(c.output));
    // Rows that sum to 1, and rows of which dropout left 0.75: the merged bias is then off by a quarter of itself.
    for (const double sum : {1.0, 0.75}) {
      Tensor<double> A = attention.Clone();
      for (double& a : A.span()) a *= sum;
      const Tensor<double> values = Project(c.value, c.tokens);
      const Tensor<double> apart = Multiply(Multiply(A, values), Transposed(c.output));
      const Tensor<double> together = Multiply(Multiply(A, c.tokens), Transposed(merged.matrix));
      for (int64_t i = 0; i < apart.size(); ++i) {
        ASSERT_NEAR(together[i] + sum * merged.bias[i % c.D()], apart[i], tolerance);
      }
      const double bias = Norm(merged.bias);
      if (sum != 1 && bias > 0) {
        double off = 0;
        for (int64_t d = 0; d < c.D(); ++d) off += std::pow(together[d] + merged.bias[d] - apart[d], 2);
        EXPECT_NEAR(std::sqrt(off), 0.25 * bias, c.D() * tolerance);
      }
    }
  }
}

TYPED_TEST(MergeTest, TheScaleFoldsIntoBothFactors) {
  for (const Case& c : this->Cases()) {
    SCOPED_TRACE(c.name);
    const QueryKey folded = FoldScale(c.pair, c.scale());
    EXPECT_LE(
        MaxDifference(Logits(folded, c.tokens, c.tokens, 1.0), ExactLogits(c.pair, c.tokens, c.tokens, c.scale())),
        c.LogitTolerance(4));
    EXPECT_NEAR(Norm(folded.query.weight), Norm(c.pair.query.weight) * std::pow(c.E(), -0.25),
                DotTolerance<double>(c.D() * c.E(), Norm(c.pair.query.weight)));
  }
}

TEST(Merge, TheTextsExample) {  // claim C7: x 2×3, projections to 4, weights output by input
  Sampler sampler(7);
  const auto x = sampler.Normal<double>({2, 3}), query = sampler.Normal<double>({4, 3}),
             key = sampler.Normal<double>({4, 3});
  const QueryKeyView pair{{query, {}}, {key, {}}};
  EXPECT_LE(MaxDifference(Logits(Merge(pair, Terms::kExact), x, x, 1), Logits(pair, x, x, 1)), 1e-14);
}

TEST(Merge, QueriesAndKeysMayReadDifferentTokens) {
  Sampler sampler(8);
  const auto query = sampler.Normal<double>({4, 3}), key = sampler.Normal<double>({4, 6});
  const auto b_q = sampler.Normal<double>({4}), b_k = sampler.Normal<double>({4});
  const auto from = sampler.Normal<double>({5, 3}), to = sampler.Normal<double>({2, 6});
  const QueryKeyView pair{{query, b_q}, {key, b_k}};
  EXPECT_LE(MaxDifference(Logits(Merge(pair, Terms::kExact), from, to, 0.5), ExactLogits(pair, from, to, 0.5)), 1e-13);
}

TEST(Merge, WrongShapesAreRefused) {
  const Tensor<double> w({4, 6}), narrow({3, 6}), bias({4}), tokens({5, 6}), other({5, 7});
  EXPECT_THROW(Merge({{w, {}}, {narrow, {}}}, Terms::kExact), Error);
  EXPECT_THROW(Merge({{w, bias}, {w, tokens}}, Terms::kExact), Error);
  EXPECT_THROW(Merge({{w, {}}, {bias, {}}}, Terms::kExact), Error);
  EXPECT_THROW(Logits(QueryKeyView{{w, {}}, {w, {}}}, tokens, other, 1), Error);
  EXPECT_THROW(MergeOutput({w, {}}, w), Error);
  EXPECT_THROW(FoldScale({{w, {}}, {w, {}}}, 0), Error);
  EXPECT_THROW(Head({w, bias}, 0, 3), Error);
  EXPECT_THROW(Head({w, bias}, 4, 4), Error);
}

}  // namespace
}  // namespace qkv::algebra
