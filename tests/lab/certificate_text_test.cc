// The certificate of layers of text: cross-attention of two widths and norms, norms after layers, and heads that share
// keys, run in double; and the verdicts of golden models.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "qkv/algebra/fold.h"
#include "qkv/algebra/merge.h"
#include "qkv/algebra/parts.h"
#include "qkv/algebra/truncate.h"
#include "qkv/algebra/values.h"
#include "qkv/lab/certificate.h"
#include "tests/algebra/support.h"
#include "tests/support/goldens.h"

namespace qkv::lab {
namespace {

using algebra::Projection;
using algebra::QueryKeyView;
using algebra::Terms;
using Matrix = Tensor<double>;
using Names = std::vector<Obstruction>;
using Norm = AttentionTraits::Norm;

constexpr int64_t kD = 12, kHeads = 3, kE = 4, kT = 5, kN = 9;

// Cross-attention of random weights, over tokens of width S.
struct Cross {
  inspect::AttentionWeights weights;
  AttentionTraits traits;
  Matrix x, y;  // tokens of both sides, behind their norms

  explicit Cross(int64_t S, uint64_t seed = 1) {
    Sampler sampler(seed);
    const auto projection = [&](int64_t inputs) {
      return Projection{sampler.Normal<double>({kHeads * kE, inputs}, 0, 1 / std::sqrt(static_cast<double>(inputs))),
                        sampler.Normal<double>({kHeads * kE}, 0, 0.5)};
    };
    weights.heads = kHeads, weights.scale = 0.5, weights.eps = 1e-6;
    weights.query = projection(kD), weights.key = projection(S), weights.value = projection(S);
    weights.output = {sampler.Normal<double>({kD, kHeads * kE}), {}};
    weights.gamma = sampler.Normal<double>({kD}, 1, 0.3), weights.beta = sampler.Normal<double>({kD}, 0, 0.3);
    weights.source = inspect::SourceTokens{.norm = Norm::kLayerNorm,
                                           .gamma = sampler.Normal<double>({S}, 1, 0.3),
                                           .beta = sampler.Normal<double>({S}, 0, 0.3)};
    x = Normed(sampler.Normal<double>({kT, kD}, 0.5, 2), weights.gamma, weights.beta);
    y = Normed(sampler.Normal<double>({kN, S}, 0.5, 2), weights.source->gamma, weights.source->beta);
  }

  static Matrix Normed(const Matrix& tokens, const Matrix& gamma, const Matrix& beta) {
    Matrix x = algebra::Normalise(tokens, 1e-6);
    for (int64_t i = 0; i < x.size(); ++i) x[i] = x[i] * gamma[i % gamma.size()] + beta[i % gamma.size()];
    return x;
  }
  QueryKeyView Pair(int64_t h) const {
    return {algebra::Head(weights.query, h, kHeads), algebra::Head(weights.key, h, kHeads)};
  }
  Matrix Logits(const QueryKeyView& pair) const { return algebra::ExactLogits(pair, x, y, weights.scale); }
};

const Certificate& Find(const std::vector<Certificate>& all, Rewriting rewriting, int64_t head) {
  return *std::ranges::find_if(all, [&](const auto& c) { return c.rewriting == rewriting && c.head == head; });
}
const Certificate& Find(const std::vector<Certificate>& all, Rewriting rewriting) {
  return Find(all, rewriting, Certificate::kAllHeads);
}

TEST(CertificateOfText, CrossAttentionMergesWithTheSourcesWidth) {
  for (const int64_t S : {int64_t{7}, kD, int64_t{20}}) {
    const Cross cross(S);
    const auto all = Certify(cross.weights, cross.traits, 2);
    for (int64_t h = 0; h < kHeads; ++h) {
      const QueryKeyView pair = cross.Pair(h);
      const Matrix exact = cross.Logits(pair);
      EXPECT_EQ(Find(all, Rewriting::kMergeExact, h).verdict, Exactness::kExact);
      EXPECT_LE(MaxDifference(algebra::Logits(algebra::Merge(pair, Terms::kExact), cross.x, cross.y, 0.5), exact),
                1e-12);
      EXPECT_EQ(Find(all, Rewriting::kMergeSoftmax, h).verdict, Exactness::kAfterSoftmax);
      EXPECT_EQ(Find(all, Rewriting::kMerge, h).obstructions, Names{Obstruction::kQueryBias});
      // The bound of a truncation holds, up to what softmax cancels.
      const Certificate& truncated = Find(all, Rewriting::kTruncate, h);
      ASSERT_EQ(truncated.verdict, Exactness::kApproximate);
      const algebra::QueryKey kept = algebra::Truncate(pair, 2, Terms::kSoftmax);
      EXPECT_LE(algebra::MaxSpread(cross.Logits(kept), exact) / 2, truncated.logit_bound);
      EXPECT_LE(truncated.logit_bound, 1e3);
    }
  }
}

// beta of either norm makes a bias of its side.
TEST(CertificateOfText, CrossAttentionFoldsEachSidesNorm) {
  const auto verdict = [](bool beta, bool source_beta) {
    Cross cross(7);
    for (Projection* p : {&cross.weights.query, &cross.weights.key}) p->bias = {};
    if (!beta) cross.weights.beta = {};
    if (!source_beta) cross.weights.source->beta = {};
    return Find(Certify(cross.weights, cross.traits, 2), Rewriting::kMergeFolded, 0);
  };
  EXPECT_EQ(verdict(false, false).verdict, Exactness::kExact);
  EXPECT_EQ(verdict(true, false).obstructions, Names{Obstruction::kBeta});
  EXPECT_EQ(verdict(true, false).verdict, Exactness::kImpossible);
  EXPECT_EQ(verdict(false, true).verdict, Exactness::kAfterSoftmax);

  Cross cross(7);
  EXPECT_EQ(Find(Certify(cross.weights, cross.traits, 2), Rewriting::kCentre).verdict, Exactness::kExact);
  cross.traits.source_norm = Norm::kRmsNorm;
  EXPECT_EQ(Find(Certify(cross.weights, cross.traits, 2), Rewriting::kCentre).obstructions,
            Names{Obstruction::kRmsNorm});
  cross.traits.source_norm = Norm::kNone;
  EXPECT_EQ(Find(Certify(cross.weights, cross.traits, 2), Rewriting::kCentre).obstructions,
            Names{Obstruction::kNoNorm});
  EXPECT_TRUE(std::isinf(Find(Certify(cross.weights, cross.traits, 2), Rewriting::kTruncate, 0).logit_bound));
}

TEST(CertificateOfText, SharingAcrossTwoSpacesNeedsOneWidth) {
  const Cross narrow(7), equal(kD);
  EXPECT_EQ(Find(Certify(narrow.weights, narrow.traits, 2), Rewriting::kShare, 0).obstructions,
            Names{Obstruction::kTwoWidths});
  const Certificate shared = Find(Certify(equal.weights, equal.traits, 2), Rewriting::kShare, 1);
  ASSERT_EQ(shared.verdict, Exactness::kApproximate);
  const QueryKeyView pair = equal.Pair(1);
  const Matrix W = algebra::FitShared(algebra::Augment(pair.query), algebra::Augment(pair.key), kE).weight.Clone();
  const Matrix S =
      algebra::Multiply(algebra::Multiply(algebra::AppendOnes(equal.x), algebra::Transposed(W)),
                        algebra::Transposed(algebra::Multiply(algebra::AppendOnes(equal.y), algebra::Transposed(W))));
  const Matrix exact = equal.Logits(pair);
  double error = 0;
  for (int64_t i = 0; i < S.size(); ++i) error = std::max(error, std::abs(0.5 * S[i] - exact[i]));
  EXPECT_GT(error, 1e-3);
  EXPECT_LE(error, shared.logit_bound);
}

// All heads' keys together are as wide as the source: values come from them.
TEST(CertificateOfText, ValuesFromTheSourcesKeys) {
  const Cross square(kD), wide(20);
  const Certificate made = Find(Certify(square.weights, square.traits, 2), Rewriting::kValuesFromKeys);
  ASSERT_EQ(made.verdict, Exactness::kExact);
  const auto from = algebra::MakeValuesFromKeys(square.weights.key, square.weights.value);
  const Matrix keys = algebra::Project(square.weights.key, square.y);
  EXPECT_LE(MaxDifference(algebra::Project(from.from_keys, keys), algebra::Project(square.weights.value, square.y)),
            1e-12 * made.condition);
  EXPECT_EQ(Find(Certify(wide.weights, wide.traits, 2), Rewriting::kValuesFromKeys).obstructions,
            Names{Obstruction::kNotSquare});
}

// Six heads of two features on twelve, that share three heads of keys: their own weights are six rows, not twelve.
TEST(CertificateOfText, KeysThatHeadsShareCountOnce) {
  Sampler sampler(4);
  inspect::AttentionWeights weights;
  weights.heads = 6, weights.key_heads = 3;
  const auto shared = sampler.Normal<double>({6, kD});
  weights.query = {sampler.Normal<double>({kD, kD}), {}};
  weights.key = {Matrix({kD, kD}), {}};
  for (int64_t h = 0; h < 6; ++h) {
    std::copy_n(shared.data() + h / 2 * 2 * kD, 2 * kD, weights.key.weight.data() + h * 2 * kD);
  }
  weights.value = {sampler.Normal<double>({kD, kD}), {}};
  EXPECT_EQ(Find(Certify(weights, {}, 1), Rewriting::kValuesFromKeys).obstructions, Names{Obstruction::kNotSquare});
  // Heads of four features: three heads of keys are as wide as the tokens.
  inspect::AttentionWeights wide;
  wide.heads = 6, wide.key_heads = 3;
  const auto own = sampler.Normal<double>({kD, kD});
  wide.query = {sampler.Normal<double>({24, kD}), {}}, wide.value = {sampler.Normal<double>({24, kD}), {}};
  wide.key = {Matrix({24, kD}), {}};
  for (int64_t h = 0; h < 6; ++h) std::copy_n(own.data() + h / 2 * 4 * kD, 4 * kD, wide.key.weight.data() + h * 4 * kD);
  EXPECT_EQ(Find(Certify(wide, {}, 1), Rewriting::kValuesFromKeys).verdict, Exactness::kExact);
}

// A norm behind a layer gives the residual stream too: without its gain another stream goes on.
TEST(CertificateOfText, GainsOfNormsAfterLayersStay) {
  Cross layer(kD);
  layer.weights.source.reset();
  EXPECT_EQ(Find(Certify(layer.weights, layer.traits, 2), Rewriting::kFoldNorm).verdict, Exactness::kExact);
  layer.traits.norm_is_stream = true;
  const auto all = Certify(layer.weights, layer.traits, 2);
  for (const Rewriting rewriting : {Rewriting::kFoldNorm, Rewriting::kCentre}) {
    EXPECT_EQ(Find(all, rewriting).obstructions, Names{Obstruction::kStream});
  }
  EXPECT_EQ(Find(all, Rewriting::kMergeFolded, 0).obstructions,
            (Names{Obstruction::kStream, Obstruction::kQueryBias, Obstruction::kBeta}));
  EXPECT_EQ(Find(all, Rewriting::kMergeExact, 0).verdict, Exactness::kExact);
  // x + attention(x) of the layer, and of the folded one on x̂: the attention is the same, the sum is not.
  Matrix hat = layer.x.Clone();
  for (int64_t i = 0; i < hat.size(); ++i) {
    hat[i] = (hat[i] - layer.weights.beta[i % kD]) / layer.weights.gamma[i % kD];
  }
  const auto values = [&](const Projection& p, const Matrix& x) { return algebra::Project(p, x); };
  const Projection folded = algebra::FoldLayerNorm(layer.weights.value, layer.weights.gamma, layer.weights.beta);
  EXPECT_LE(MaxDifference(values(folded, hat), values(layer.weights.value, layer.x)), 1e-12);
  EXPECT_GT(MaxDifference(hat, layer.x), 0.1);
}

std::vector<Certificate> OfGolden(const std::string& name, size_t part) {
  const auto checkpoint = model::TextCheckpoint::Open(TextGoldenFolder(name));
  const auto parts = inspect::FindParts(checkpoint);
  return Certify(parts.at(part), 0, MakeAttentionTraits(parts.at(part)));
}

TEST(CertificateOfText, OfTheFamilies) {
  using enum Obstruction;
  const auto bert = OfGolden("bert", 0);
  EXPECT_EQ(Find(bert, Rewriting::kMerge, 0).part, "encoder");
  EXPECT_EQ(Find(bert, Rewriting::kMerge, 0).obstructions, Names{kQueryBias});
  EXPECT_EQ(Find(bert, Rewriting::kFoldNorm).obstructions, Names{kStream});
  EXPECT_EQ(Find(bert, Rewriting::kMergeOutput, 0).verdict, Exactness::kExact);
  // A norm before the layer.
  const auto gpt2 = OfGolden("gpt2", 0);
  EXPECT_EQ(Find(gpt2, Rewriting::kFoldNorm).verdict, Exactness::kExact);
  EXPECT_EQ(Find(gpt2, Rewriting::kCentre).verdict, Exactness::kExact);
  EXPECT_EQ(Find(gpt2, Rewriting::kMergeExact, 0).verdict, Exactness::kExact);
  // Rotary positions and grouped heads; norms of queries and keys.
  const auto llama = OfGolden("llama", 0), qwen3 = OfGolden("qwen3", 0);
  EXPECT_EQ(Find(llama, Rewriting::kMergeExact, 0).obstructions, Names{kRope});
  EXPECT_EQ(Find(llama, Rewriting::kCentre).obstructions, Names{kRmsNorm});
  EXPECT_EQ(Find(llama, Rewriting::kValuesFromKeys).obstructions, (Names{kRope, kNotSquare}));
  EXPECT_EQ(Find(llama, Rewriting::kMergeOutput, 0).verdict, Exactness::kExact);
  EXPECT_EQ(Find(qwen3, Rewriting::kMergeExact, 0).obstructions, (Names{kQkNorm, kRope}));
  // Biases by relative position obstruct nothing; no bias, and no beta.
  for (size_t part = 0; part < 3; ++part) {
    const auto t5 = OfGolden("t5", part);
    for (const Rewriting rewriting : {Rewriting::kMerge, Rewriting::kMergeFolded, Rewriting::kSplit}) {
      EXPECT_EQ(Find(t5, rewriting, 2).verdict, Exactness::kExact) << part << Name(rewriting);
    }
    EXPECT_EQ(Find(t5, Rewriting::kCentre).obstructions, Names{kRmsNorm});
    EXPECT_TRUE(std::isfinite(Find(t5, Rewriting::kTruncate, 0).logit_bound));
  }
  // The first block of Marian reads the embeddings, without a norm that would bound them.
  const auto marian = OfGolden("marian", 0), cross = OfGolden("marian", 2);
  EXPECT_TRUE(std::isinf(Find(marian, Rewriting::kTruncate, 0).logit_bound));
  EXPECT_EQ(Find(marian, Rewriting::kCentre).obstructions, Names{kNoNorm});
  EXPECT_EQ(Find(cross, Rewriting::kMerge, 0).part, "cross");
  EXPECT_EQ(Find(cross, Rewriting::kFoldNorm).obstructions, Names{kStream});
  EXPECT_EQ(Find(cross, Rewriting::kMergeExact, 0).verdict, Exactness::kExact);
  EXPECT_EQ(Find(cross, Rewriting::kShare, 0).verdict, Exactness::kApproximate);
  EXPECT_TRUE(std::isfinite(Find(cross, Rewriting::kShare, 0).logit_bound));
}

}  // namespace
}  // namespace qkv::lab
