// Note 6: the gauge freedom, and three ways to fix it.
#include "qkv/algebra/gauge.h"

#include "qkv/algebra/rope.h"
#include "qkv/algebra/spectrum.h"
#include "qkv/algebra/split.h"
#include "tests/algebra/support.h"

namespace qkv::algebra {
namespace {

QKV_HEAD_TEST_SUITE(GaugeTest);

double Condition(const Tensor<double>& m) {
  const auto s = SingularValues(m);
  return static_cast<double>(s.front()) / static_cast<double>(s.back());
}

// Rounding of T and T⁻¹ meets in the product, grown by at most the condition number.
double GaugeTolerance(const Case& c, const Tensor<double>& transform) {
  return Condition(transform) * c.LogitTolerance(4);
}

bool FullRank(const Case& c) { return c.E() <= c.D() && c.rank == c.E(); }

TYPED_TEST(GaugeTest, AnyInvertibleTransformKeepsTheLogits) {
  for (const Case& c : this->Cases()) {
    SCOPED_TRACE(c.name);
    Tensor<double> transform = Sampler(11).Normal<double>({c.E(), c.E()}, 0, 0.3);
    for (int64_t e = 0; e < c.E(); ++e) transform[e * (c.E() + 1)] += 1.5;
    const QueryKey other = Regauge(c.pair, transform);
    const Tensor<double> exact = ExactLogits(c.pair, c.tokens, c.tokens, c.scale());
    EXPECT_LE(MaxDifference(Logits(other, c.tokens, c.tokens, c.scale()), exact), GaugeTolerance(c, transform));
    // The weights are others, and so is what weight decay sees.
    EXPECT_GT(std::abs(Norm(other.query.weight) - Norm(c.pair.query.weight)), 0.01 * Norm(c.pair.query.weight));
    // The transform stands where it is said to: W_K = T (T⁻¹ W_K), and Tᵀ W_Q.
    const Tensor<double> back = Multiply(transform, other.key.weight);
    EXPECT_LE(MaxDifference(back, c.pair.key.weight),
              StepTolerance(2, c.E(), Condition(transform) * Norm(c.pair.key.weight)));
    const Tensor<double> query = Multiply(Transposed(transform), c.pair.query.weight);
    EXPECT_LE(MaxDifference(query, other.query.weight),
              StepTolerance(2, c.E(), Norm(transform) * Norm(c.pair.query.weight)));
  }
}

TYPED_TEST(GaugeTest, Balanced) {
  for (const Case& c : this->Cases()) {
    SCOPED_TRACE(c.name);
    if (!FullRank(c)) {
      EXPECT_THROW(BalancedGauge(c.pair), Error);
      continue;
    }
    const Tensor<double> transform = BalancedGauge(c.pair);
    const QueryKey balanced = Regauge(c.pair, transform);
    EXPECT_LE(MaxDifference(Logits(balanced, c.tokens, c.tokens, c.scale()),
                            ExactLogits(c.pair, c.tokens, c.tokens, c.scale())),
              GaugeTolerance(c, transform));
    // W_Q W_Qᵀ = W_K W_Kᵀ = the singular values of M.
    const auto s = SingularValues(c.pair.query.weight, c.pair.key.weight);
    const double tolerance =
        StepTolerance(6, c.D(), Condition(transform) * SideNorm(c.pair.query) * SideNorm(c.pair.key));
    for (const Tensor<double>* weight : {&balanced.query.weight, &balanced.key.weight}) {
      const Tensor<double> gram = Multiply(*weight, Transposed(*weight));
      for (int64_t i = 0; i < c.E(); ++i) {
        for (int64_t j = 0; j < c.E(); ++j) {
          ASSERT_NEAR(*gram.view().at(i, j), i == j ? s[static_cast<size_t>(i)] : 0.0, tolerance);
        }
      }
    }
    // The least weight decay of all gauges.
    EXPECT_LE(std::pow(Norm(balanced.query.weight), 2) + std::pow(Norm(balanced.key.weight), 2),
              std::pow(Norm(c.pair.query.weight), 2) + std::pow(Norm(c.pair.key.weight), 2) + c.E() * tolerance);
  }
}

TYPED_TEST(GaugeTest, OrthonormalKeys) {
  for (const Case& c : this->Cases()) {
    SCOPED_TRACE(c.name);
    if (c.E() > c.D()) {
      EXPECT_THROW(OrthonormalKeysGauge(c.pair.key), Error);
      continue;
    }
    const Tensor<double> transform = OrthonormalKeysGauge(c.pair.key);
    for (int64_t i = 0; i < c.E(); ++i) {
      EXPECT_GT(*transform.view().at(i, i), 0);
      for (int64_t j = i + 1; j < c.E(); ++j) EXPECT_EQ(*transform.view().at(i, j), 0);
    }
    const QueryKey other = Regauge(c.pair, transform);
    EXPECT_LE(
        MaxDifference(Logits(other, c.tokens, c.tokens, c.scale()), ExactLogits(c.pair, c.tokens, c.tokens, c.scale())),
        GaugeTolerance(c, transform));
    const double tolerance = StepTolerance(4, c.D(), c.E() * Condition(transform));
    const Tensor<double> gram = Multiply(other.key.weight, Transposed(other.key.weight));
    for (int64_t i = 0; i < c.E(); ++i) {
      for (int64_t j = 0; j < c.E(); ++j) ASSERT_NEAR(*gram.view().at(i, j), i == j, tolerance);
    }
    // The queries' weight has the singular values of M.
    const auto s = SingularValues(c.pair.query.weight, c.pair.key.weight);
    const auto of_query = SingularValues(other.query.weight);
    for (size_t i = 0; i < s.size(); ++i) {
      EXPECT_NEAR(of_query[i], s[i], StepTolerance(6, c.D(), SideNorm(c.pair.query) * SideNorm(c.pair.key)));
    }
  }
}

TYPED_TEST(GaugeTest, IdentityBlock) {
  for (const Case& c : this->Cases()) {
    SCOPED_TRACE(c.name);
    if (c.E() > c.D()) {
      EXPECT_THROW(IdentityBlockGauge(c.pair.key), Error);
      continue;
    }
    const IdentityBlock block = IdentityBlockGauge(c.pair.key);
    EXPECT_NEAR(block.condition, Condition(block.transform), 1e-3 * block.condition);
    const QueryKey other = Regauge(c.pair, block.transform);
    EXPECT_LE(
        MaxDifference(Logits(other, c.tokens, c.tokens, c.scale()), ExactLogits(c.pair, c.tokens, c.tokens, c.scale())),
        GaugeTolerance(c, block.transform));
    ASSERT_EQ(std::ssize(block.columns), c.E());
    for (int64_t i = 0; i < c.E(); ++i) {
      for (int64_t j = 0; j < c.E(); ++j) {
        ASSERT_NEAR(*other.key.weight.view().at(i, block.columns[static_cast<size_t>(j)]), i == j,
                    StepTolerance(2, c.E(), block.condition));
      }
    }
  }
}

// Σ W_Q W_Qᵀ = W_K W_Kᵀ, and the scores of each head as before.
TEST(Gauge, HeadsThatShareKeysAreBalancedTogether) {
  const Case a = RandomCase({4, 12, 4}, 31), b = RandomCase({4, 12, 4}, 32);
  const ProjectionView queries[] = {a.pair.query, b.pair.query};
  const Tensor<double> transform = BalancedGauge(queries, a.pair.key);
  const QueryKey first = Regauge({a.pair.query, a.pair.key}, transform),
                 second = Regauge({b.pair.query, a.pair.key}, transform);
  const double tolerance = StepTolerance(
      6, 12, Condition(transform) * (SideNorm(a.pair.query) + SideNorm(b.pair.query)) * SideNorm(a.pair.key));
  const Tensor<double> keys = Multiply(first.key.weight, Transposed(first.key.weight)),
                       q = Multiply(first.query.weight, Transposed(first.query.weight)),
                       p = Multiply(second.query.weight, Transposed(second.query.weight));
  for (int64_t i = 0; i < keys.size(); ++i) EXPECT_NEAR(q[i] + p[i], keys[i], tolerance);
  EXPECT_LE(MaxDifference(Logits(second, a.tokens, a.tokens, 1),
                          ExactLogits({b.pair.query, a.pair.key}, a.tokens, a.tokens, 1)),
            Condition(transform) * (a.LogitTolerance(4) + b.LogitTolerance(4)) / a.scale());
  EXPECT_EQ(MaxDifference(first.key.weight, second.key.weight), 0);
}

TEST(Gauge, NamesChooseThem) {
  const Case c = RandomCase({4, 12, 4}, 33);
  const ProjectionView query = c.pair.query;
  EXPECT_EQ(MaxDifference(FixGauge(ParseGauge("balanced", ""), {&query, 1}, c.pair.key), BalancedGauge(c.pair)), 0);
  EXPECT_EQ(MaxDifference(FixGauge(ParseGauge("orthonormal_keys", ""), {&query, 1}, c.pair.key),
                          OrthonormalKeysGauge(c.pair.key)),
            0);
  EXPECT_EQ(MaxDifference(FixGauge(ParseGauge("identity_block", ""), {&query, 1}, c.pair.key),
                          IdentityBlockGauge(c.pair.key).transform),
            0);
  EXPECT_EQ(Name(Gauge::kIdentityBlock), "identity_block");
  EXPECT_THROW(ParseGauge("nice", "regauge"), Error);
}

TEST(Gauge, NormalisedQueriesAndRotaryPositionsSeeIt) {
  const Case c = RandomCase({4, 12, 4}, 21);
  Tensor<double> transform = Sampler(22).Normal<double>({4, 4}, 0, 0.5);
  for (int64_t e = 0; e < 4; ++e) transform[e * 5] += 1.5;
  const QueryKey other = Regauge(c.pair, transform);
  EXPECT_GT(MaxDifference(Logits(MergeCosine(other), c.tokens, c.tokens, 1),
                          Logits(MergeCosine(c.pair), c.tokens, c.tokens, 1)),
            0.01);
  // Three positions apart.
  const auto rotated = [&](const QueryKey& pair) {
    const Projection key = Rotate(pair.key, {}, 3);
    return Logits(QueryKeyView{pair.query, key}, c.tokens, c.tokens, 1);
  };
  EXPECT_GT(MaxDifference(rotated(other), rotated(c.pair)), 0.01);
}

TEST(Gauge, SingularTransformsAreRefused) {
  const Case c = RandomCase({4, 12, 4}, 1);
  Tensor<double> transform({4, 4}), rows({3, 4});
  EXPECT_THROW(Regauge(c.pair, transform), Error);
  for (double& x : transform.span()) x = 1;
  EXPECT_THROW(Regauge(c.pair, transform), Error);
  EXPECT_THROW(Regauge(c.pair, rows), Error);
}

}  // namespace
}  // namespace qkv::algebra
