// Note 4: the LayerNorm before the projections moves into them, and what is left of its inputs is centred.
#include "qkv/algebra/fold.h"

#include "qkv/algebra/spectrum.h"
#include "tests/algebra/support.h"

namespace qkv::algebra {
namespace {

QKV_HEAD_TEST_SUITE(FoldTest);

// γ and β grow a projection's norm by at most this.
double Growth(const Case& c) {
  double greatest = 1;
  for (const double g : c.gamma.span()) greatest = std::max<double>(greatest, std::abs(g));
  return greatest + Norm(c.beta);
}

double FoldTolerance(const Case& c, int steps) {
  return StepTolerance(steps, c.D(), (TokenNorm(c.normalised) + 1) * SideNorm(c.pair.query) * Growth(c));
}

TYPED_TEST(FoldTest, TheFoldedProjectionReadsNormalisedTokens) {
  for (const Case& c : this->Cases()) {
    SCOPED_TRACE(c.name);
    for (const bool bias : {false, true}) {
      ProjectionView p = c.pair.query;
      if (!bias) p.bias = {};
      const Projection folded = FoldLayerNorm(p, c.gamma, c.beta);
      EXPECT_LE(MaxDifference(Apply(folded, c.normalised), Project(p, c.tokens)), FoldTolerance(c, 3));
      // β makes a bias where there was none.
      EXPECT_FALSE(folded.bias.empty());
      if (!bias && !this->kTrained) {
        const Projection without = FoldLayerNorm(p, c.gamma, {});
        EXPECT_TRUE(without.bias.empty());
        EXPECT_GT(MaxDifference(Apply(without, c.normalised), Project(p, c.tokens)), 1e2 * FoldTolerance(c, 3));
      }
    }
  }
}

TYPED_TEST(FoldTest, CentringIsExactAfterALayerNorm) {
  for (const Case& c : this->Cases()) {
    SCOPED_TRACE(c.name);
    const Projection folded = FoldLayerNorm(c.pair.query, c.gamma, c.beta), centred = Centre(folded);
    EXPECT_LE(MaxDifference(Apply(centred, c.normalised), Apply(folded, c.normalised)), FoldTolerance(c, 4));
    for (int64_t e = 0; e < c.E(); ++e) {
      double sum = 0;
      for (int64_t d = 0; d < c.D(); ++d) sum += centred.weight[e * c.D() + d];
      EXPECT_NEAR(sum, 0, FoldTolerance(c, 2));
    }
    // Not of tokens whose features do not sum to zero, such as an RMSNorm's.
    if (!this->kTrained) {
      EXPECT_GT(MaxDifference(Apply(centred, c.hidden), Apply(folded, c.hidden)), 1e2 * FoldTolerance(c, 4));
    }
  }
}

TYPED_TEST(FoldTest, CentredFactorsMakeThePMPOfTheirProduct) {
  for (const Case& c : this->Cases()) {
    SCOPED_TRACE(c.name);
    const QueryKey centred{Centre(c.pair.query), Centre(c.pair.key)};
    const Tensor<double> PMP = CentreBoth(Merge(c.pair, Terms::kExact).matrix);
    const double tolerance = StepTolerance(4, c.D(), SideNorm(c.pair.query) * SideNorm(c.pair.key));
    EXPECT_LE(MaxDifference(Merge(centred, Terms::kExact).matrix, PMP), tolerance);
    // What M does along 1 is never seen: the spectrum differs, the logits of normalised tokens do not.
    QueryKeyView bare = c.pair;
    bare.query.bias = bare.key.bias = {};
    Merged merged;
    merged.matrix = PMP.Clone();
    EXPECT_LE(MaxDifference(Logits(merged, c.normalised, c.normalised, c.scale()),
                            ExactLogits(bare, c.normalised, c.normalised, c.scale())),
              StepTolerance(
                  5, c.largest(),
                  c.scale() * std::pow(TokenNorm(c.normalised), 2) * SideNorm(c.pair.query) * SideNorm(c.pair.key)));
  }
}

TYPED_TEST(FoldTest, CentredOutputsSumToZero) {
  for (const Case& c : this->Cases()) {
    SCOPED_TRACE(c.name);
    const Tensor<double> centred = CentreOutputs(c.output);
    for (int64_t e = 0; e < c.E(); ++e) {
      double sum = 0, mean = 0;
      for (int64_t d = 0; d < c.D(); ++d) sum += centred[d * c.E() + e], mean += c.output[d * c.E() + e] / c.D();
      EXPECT_NEAR(sum, 0, StepTolerance(2, c.D(), c.D() * Norm(c.output)));
      EXPECT_NEAR(centred[e], c.output[e] - mean, DotTolerance<double>(c.D(), Norm(c.output)));
    }
  }
}

TEST(Fold, NormalisedTokensHaveMeanZeroAndVarianceOne) {
  const auto x = Sampler(3).Normal<double>({6, 50}, 3, 5);
  const Tensor<double> y = Normalise(x, 1e-6);
  for (int64_t i = 0; i < 6; ++i) {
    double mean = 0, square = 0, of_x = 0, variance = 0;
    for (int64_t d = 0; d < 50; ++d) mean += y[i * 50 + d] / 50, square += y[i * 50 + d] * y[i * 50 + d] / 50;
    for (int64_t d = 0; d < 50; ++d) of_x += x[i * 50 + d] / 50;
    for (int64_t d = 0; d < 50; ++d) variance += std::pow(x[i * 50 + d] - of_x, 2) / 50;
    EXPECT_NEAR(mean, 0, 1e-14);
    EXPECT_NEAR(square, variance / (variance + 1e-6), 1e-13);
  }
}

TEST(Fold, WrongShapesAreRefused) {
  const Tensor<double> w({4, 6}), gamma({6}), four({4});
  EXPECT_THROW(FoldLayerNorm({w, {}}, four, {}), Error);
  EXPECT_THROW(FoldLayerNorm({w, {}}, gamma, four), Error);
  EXPECT_THROW(CentreBoth(w), Error);
}

}  // namespace
}  // namespace qkv::algebra
