// Notes 3, 4, 13 and 14: what stands in the way of merging does stand there, and what is left exact is exact.
#include <functional>

#include "qkv/algebra/rope.h"
#include "tests/algebra/support.h"

namespace qkv::algebra {
namespace {

QKV_HEAD_TEST_SUITE(ObstructionTest);

struct Activation {
  const char* name;
  std::function<Tensor<double>(const Tensor<double>&)> attention;  // of logits
};

Tensor<double> Map(const Tensor<double>& S, const std::function<double(double)>& f) {
  Tensor<double> mapped = S.Clone();
  for (double& x : mapped.span()) x = f(x);
  return mapped;
}

// softmax with more terms in the denominator: a sink's logit, or softmax-plus-one (Miller 2023), or an added key.
Tensor<double> SoftmaxBeside(const Tensor<double>& S, double logit) {
  Tensor<double> A = Map(S, [](double x) { return std::exp(x); });
  for (int64_t i = 0; i < A.dim(0); ++i) {
    double sum = std::exp(logit);
    for (int64_t j = 0; j < A.dim(1); ++j) sum += A[i * A.dim(1) + j];
    for (int64_t j = 0; j < A.dim(1); ++j) A[i * A.dim(1) + j] /= sum;
  }
  return A;
}

std::vector<Activation> Obstructions() {
  return {
      {"attention sink", [](const auto& S) { return SoftmaxBeside(S, 1); }},
      {"softmax plus one, or a zero key added", [](const auto& S) { return SoftmaxBeside(S, 0); }},
      {"soft cap", [](const auto& S) { return ExactSoftmax(Map(S, [](double x) { return 2 * std::tanh(x / 2); })); }},
      {"sigmoid", [](const auto& S) { return Map(S, [](double x) { return 1 / (1 + std::exp(-x)); }); }},
      {"ReLU", [](const auto& S) { return Map(S, [](double x) { return std::max(x, 0.0); }); }}};
}

// Each depends on the terms in b_K; all of them are functions of the exact logits, which do merge.
TYPED_TEST(ObstructionTest, SoftmaxTermsAreNotEnoughForWhatIsNoPlainSoftmax) {
  if (this->kTrained) GTEST_SKIP() << "a trained key bias may be near zero";
  for (const Case& c : this->Cases()) {
    SCOPED_TRACE(c.name);
    const Tensor<double> exact = ExactLogits(c.pair, c.tokens, c.tokens, c.scale());
    const Tensor<double> full = Logits(Merge(c.pair, Terms::kExact), c.tokens, c.tokens, c.scale());
    const Tensor<double> short_of = Logits(Merge(c.pair, Terms::kSoftmax), c.tokens, c.tokens, c.scale());
    EXPECT_LE(MaxDifference(ExactSoftmax(short_of), ExactSoftmax(exact)), c.AttentionTolerance(3));
    for (const auto& [name, attention] : Obstructions()) {
      SCOPED_TRACE(name);
      EXPECT_GT(MaxDifference(attention(short_of), attention(exact)), 1e-3);
      EXPECT_LE(MaxDifference(attention(full), attention(exact)), c.AttentionTolerance(3));
    }
  }
}

TYPED_TEST(ObstructionTest, CosineAttentionKeepsItsNorms) {
  for (const Case& c : this->Cases()) {
    SCOPED_TRACE(c.name);
    const Tensor<double> q = Project(c.pair.query, c.tokens), k = Project(c.pair.key, c.tokens);
    const auto norm = [](const Tensor<double>& x, int64_t i) {
      return Norm(View<const double>(x.data() + i * x.dim(1), Shape{x.dim(1)}));
    };
    Tensor<double> exact = ExactLogits(c.pair, c.tokens, c.tokens, 1);
    double least = INFINITY;
    for (int64_t i = 0; i < c.N(); ++i) {
      for (int64_t j = 0; j < c.N(); ++j) {
        exact[i * c.N() + j] /= norm(q, i) * norm(k, j);
        least = std::min(least, norm(q, i) * norm(k, j));
      }
    }
    // The norms come as roots of sums whose terms may cancel: their relative error is that of the squares.
    const auto relative = [&](const Projection& p, const Tensor<double>& y) {
      double smallest = INFINITY;
      for (int64_t i = 0; i < c.N(); ++i) smallest = std::min(smallest, norm(y, i));
      return StepTolerance(4, c.largest(), std::pow(TokenNorm(c.tokens) * SideNorm(p) / smallest, 2));
    };
    const double tolerance =
        c.LogitTolerance(3) / c.scale() / least + relative(c.pair.query, q) + relative(c.pair.key, k);
    EXPECT_LE(MaxDifference(Logits(MergeCosine(c.pair), c.tokens, c.tokens, 1.0), exact), tolerance);
    // The merged numerator alone is not the cosine, and neither are softmax terms over the right norms.
    if (this->kTrained || c.E() == 1) continue;
    EXPECT_GT(MaxSpread(Logits(Merge(c.pair, Terms::kExact), c.tokens, c.tokens, 1.0), exact), 0.1);
    MergedCosine dropped = MergeCosine(c.pair);
    dropped.numerator = Merge(c.pair, Terms::kSoftmax);
    EXPECT_GT(MaxSpread(Logits(dropped, c.tokens, c.tokens, 1.0), exact), 0.01);
  }
}

// Logits with the query at position p and the key at position p'.
Tensor<double> RotaryLogits(const Case& c, const QueryKeyView& pair, const Rope& rope, double p, double p2) {
  const Projection query = Rotate(pair.query, rope, p), key = Rotate(pair.key, rope, p2);
  return ExactLogits({query, key}, c.tokens, c.tokens, c.scale());
}

TYPED_TEST(ObstructionTest, RotaryPositionsNeedAMatrixForEachOffset) {
  for (const Case& c : this->Cases()) {
    if (c.E() % 2 != 0) continue;
    SCOPED_TRACE(c.name);
    const QueryKeyView pair = c.pair;
    const auto at = [&](double offset) {
      return Logits(Merge({pair.query, Rotate(pair.key, {}, offset)}, Terms::kExact), c.tokens, c.tokens, c.scale());
    };
    // Only the offset counts, and its own M(Δ) is exact for it.
    EXPECT_LE(MaxDifference(at(3), RotaryLogits(c, pair, {}, 5, 8)), c.LogitTolerance(5));
    EXPECT_LE(MaxDifference(at(-2), RotaryLogits(c, pair, {}, 4, 2)), c.LogitTolerance(5));
    EXPECT_LE(MaxDifference(at(0), RotaryLogits(c, pair, {}, 9, 9)), c.LogitTolerance(5));
    // Another offset's is not.
    EXPECT_GT(MaxDifference(at(0), RotaryLogits(c, pair, {}, 5, 8)), 0.01);
    EXPECT_GT(MaxDifference(at(-3), RotaryLogits(c, pair, {}, 5, 8)), 0.01);
  }
}

TYPED_TEST(ObstructionTest, RotaryPositionsLetTheKeysBiasThrough) {
  for (const Case& c : this->Cases()) {
    if (c.E() % 2 != 0 || this->kTrained) continue;
    SCOPED_TRACE(c.name);
    // One query and the keys at two positions: the term in b_K is another for each.
    QueryKeyView without = c.pair;
    without.key.bias = {};
    const Tensor<double> near = Minus(RotaryLogits(c, c.pair, {}, 0, 0), RotaryLogits(c, without, {}, 0, 0));
    const Tensor<double> far = Minus(RotaryLogits(c, c.pair, {}, 0, 2), RotaryLogits(c, without, {}, 0, 2));
    EXPECT_LE(MaxSpread(near, Tensor<double>({c.N(), c.N()})), 2 * c.LogitTolerance(5));  // constant along a row
    EXPECT_GT(MaxDifference(near, far), 0.01);
  }
}

TYPED_TEST(ObstructionTest, TheRowsThatDoNotTurnStillMerge) {
  for (const Case& c : this->Cases()) {
    if (c.E() < 4) continue;
    SCOPED_TRACE(c.name);
    const Rope rope{.width = c.E() / 4 * 2};
    const auto rows = [&](const ProjectionView& p, int64_t begin, int64_t end) {
      return ProjectionView{p.weight.slice(0, begin, end), p.bias.slice(0, begin, end)};
    };
    const QueryKeyView pair = c.pair;
    const QueryKeyView still{rows(pair.query, rope.width, c.E()), rows(pair.key, rope.width, c.E())};
    const QueryKeyView turned{rows(pair.query, 0, rope.width), rows(pair.key, 0, rope.width)};
    Tensor<double> merged = Logits(Merge(still, Terms::kExact), c.tokens, c.tokens, c.scale());
    for (const double position : {0.0, 1.0, 7.5}) {
      const Tensor<double> whole = RotaryLogits(c, pair, rope, 0, position),
                           part = RotaryLogits(c, turned, {}, 0, position);
      EXPECT_LE(MaxDifference(merged, Minus(whole, part)), c.LogitTolerance(6));
    }
  }
}

// Positions that are part of the tokens, or that are added to the logits, are no obstacle.
TYPED_TEST(ObstructionTest, AbsoluteAndAdditivePositionsAreHarmless) {
  for (const Case& c : this->Cases()) {
    SCOPED_TRACE(c.name);
    const auto bias = Sampler(61).Normal<double>({c.N(), c.N()});
    const auto add = [&](Tensor<double> S) {
      for (int64_t i = 0; i < S.size(); ++i) S[i] += bias[i];
      return ExactSoftmax(S);
    };
    Tensor<double> merged = Logits(Merge(c.pair, Terms::kSoftmax), c.tokens, c.tokens, c.scale());
    EXPECT_LE(MaxDifference(add(std::move(merged)), add(ExactLogits(c.pair, c.tokens, c.tokens, c.scale()))),
              c.AttentionTolerance(3));
  }
}

// A projection "without bias" behind a LayerNorm has one: W β.
TYPED_TEST(ObstructionTest, LayerNormsBetaIsABias) {
  for (const Case& c : this->Cases()) {
    SCOPED_TRACE(c.name);
    QueryKeyView bare = c.pair;
    bare.query.bias = bare.key.bias = {};
    const QueryKey folded{FoldLayerNorm(bare.query, c.gamma, c.beta), FoldLayerNorm(bare.key, c.gamma, c.beta)};
    const Merged merged = Merge(folded, Terms::kSoftmax);
    ASSERT_FALSE(merged.key_term.empty());
    const Tensor<double> exact = ExactLogits(bare, c.tokens, c.tokens, c.scale());
    double gain = 1;
    for (const double g : c.gamma.span()) gain = std::max<double>(gain, std::abs(g));
    const double tolerance =
        StepTolerance(6, c.largest() + 1,
                      c.scale() * std::pow((TokenNorm(c.normalised) + 1) * (gain + Norm(c.beta)), 2) *
                          Norm(bare.query.weight) * Norm(bare.key.weight));
    EXPECT_LE(MaxSpread(Logits(merged, c.normalised, c.normalised, c.scale()), exact), 2 * tolerance);
    if (this->kTrained) continue;
    Merged without = Merge(folded, Terms::kSoftmax);
    without.key_term = {};
    EXPECT_GT(MaxSpread(Logits(without, c.normalised, c.normalised, c.scale()), exact), 0.01);
  }
}

TEST(Obstruction, RotationsOfOddWidthsAreRefused) {
  const Tensor<double> w({5, 3});
  EXPECT_THROW(Rotate({w, {}}, {}, 1), Error);
  EXPECT_THROW(Rotate({w, {}}, {.width = 6}, 1), Error);
  EXPECT_NO_THROW(Rotate({w, {}}, {.width = 4}, 1));
}

}  // namespace
}  // namespace qkv::algebra
