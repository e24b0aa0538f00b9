// Note 19: what holds of M where queries come from one space, and keys and values from another.
#include <numeric>

#include "qkv/algebra/gauge.h"
#include "qkv/algebra/merge.h"
#include "qkv/algebra/parts.h"
#include "qkv/algebra/shared.h"
#include "qkv/algebra/split.h"
#include "tests/algebra/support.h"

namespace qkv::algebra {
namespace {

using Matrix = Tensor<double>;

constexpr int64_t kE = 4, kD = 12;

Projection RandomProjection(int64_t rows, int64_t columns, Sampler& sampler) {
  return {sampler.Normal<double>({rows, columns}, 0, 1 / std::sqrt(static_cast<double>(columns))),
          sampler.Normal<double>({rows}, 0, 0.5)};
}

// Orthonormal rows [n, n], the first of which span those of `rows` in their order (Gram and Schmidt, twice).
Matrix Basis(const Matrix& rows, int64_t n, Sampler& sampler) {
  Matrix basis({n, n});
  for (int64_t i = 0; i < n; ++i) {
    Matrix row = sampler.Normal<double>({n});
    if (i < rows.dim(0)) std::copy_n(rows.data() + i * n, n, row.data());
    for (int64_t k = 0; k < 2 * i; ++k) {
      const double* const other = basis.data() + k % i * n;
      const double along = std::inner_product(other, other + n, row.data(), 0.0);
      for (int64_t d = 0; d < n; ++d) row[d] -= along * other[d];
    }
    const double norm = Norm(row);
    for (int64_t d = 0; d < n; ++d) basis[i * n + d] = row[d] / norm;
  }
  return basis;
}

// A source narrower and wider than the queries' tokens, and as wide.
TEST(Cross, MergesAndSplitsWithTheSourcesWidth) {
  for (const int64_t S : {int64_t{7}, kD, int64_t{17}}) {
    Sampler sampler(static_cast<uint64_t>(S));
    const QueryKey pair{RandomProjection(kE, kD, sampler), RandomProjection(kE, S, sampler)};
    const auto x = sampler.Normal<double>({6, kD}), y = sampler.Normal<double>({9, S});
    const Matrix exact = ExactLogits(pair, x, y, 0.5);
    const double tolerance =
        StepTolerance(6, S + kD, TokenNorm(x) * TokenNorm(y) * (1 + SideNorm(pair.query)) * (1 + SideNorm(pair.key)));
    const Merged merged = Merge(pair, Terms::kExact);
    EXPECT_EQ(merged.matrix.shape(), Shape({kD, S}));
    EXPECT_LE(MaxDifference(Logits(merged, x, y, 0.5), exact), tolerance);
    // Without the terms in b_K another logit for each query, and the same attention.
    EXPECT_LE(MaxSpread(Logits(Merge(pair, Terms::kSoftmax), x, y, 0.5), exact), tolerance);
    EXPECT_LE(MaxDifference(Logits(Split(pair, Terms::kExact), x, y, 0.5), exact), 10 * tolerance);
  }
}

// A shared projection of two sequences has none of the limits that it has within one.
TEST(Cross, SharedProjectionsOfTwoSequencesAreNotBalanced) {
  Sampler sampler(2);
  const Projection shared = RandomProjection(kE, kD, sampler);
  const auto x = sampler.Normal<double>({9, kD}), y = sampler.Normal<double>({9, kD});
  const Matrix within = Logits(QueryKeyView{shared, shared}, x, x, 0.5),
               across = Logits(QueryKeyView{shared, shared}, x, y, 0.5);
  EXPECT_LE(PairExcess(within), 1e-12);
  EXPECT_LE(BalanceError(within), 1e-12);
  EXPECT_GT(PairExcess(across), 0.1);
  EXPECT_GT(BalanceError(across), 0.1);
}

// Turning the source's coordinates makes any M positive semidefinite, and so any pair a shared one. Turning both sides
// together, as within one sequence, changes neither M's symmetry nor how well a shared weight fits.
TEST(Cross, OneTurnOfTheSourceMakesAnyPairShared) {
  Sampler sampler(3);
  const QueryKey pair{{sampler.Normal<double>({kE, kD}), {}}, {sampler.Normal<double>({kE, kD}), {}}};
  const double apart = FitShared(pair.query.weight, pair.key.weight, kE).residual_relative;
  EXPECT_GT(apart, 0.5);

  const QueryKey balanced = Split(pair, Terms::kExact);  // Σ^½ Uᵀ and Σ^½ Vᵀ
  const Matrix U = Basis(balanced.query.weight, kD, sampler), V = Basis(balanced.key.weight, kD, sampler);
  const Matrix turn = Multiply(Transposed(V), U);  // R: V R = U
  const Matrix turned = Multiply(pair.key.weight, turn);
  EXPECT_LE(FitShared(pair.query.weight, turned, kE).residual_relative, 1e-13);
  EXPECT_NEAR(SymmetryScore(pair.query.weight, turned), 1, 1e-13);

  const Matrix query = Multiply(pair.query.weight, turn);
  EXPECT_NEAR(FitShared(query, turned, kE).residual_relative, apart, 1e-13);
  EXPECT_NEAR(SymmetryScore(query, turned), SymmetryScore(pair.query.weight, pair.key.weight), 1e-13);
}

}  // namespace
}  // namespace qkv::algebra
