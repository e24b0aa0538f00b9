// Notes 15 and 16: symmetric and antisymmetric parts, and the nearest shared projection.
#include "qkv/algebra/parts.h"

#include <numbers>

#include "qkv/algebra/merge.h"
#include "qkv/algebra/spectrum.h"
#include "tests/algebra/support.h"

namespace qkv::algebra {
namespace {

QKV_HEAD_TEST_SUITE(PartsTest);

// WᵀDW for a fit.
Tensor<double> Fitted(const SymmetricFit& fit) {
  Tensor<double> scaled = fit.weight.Clone();
  for (int64_t i = 0; i < scaled.size(); ++i) scaled[i] *= fit.signs[i / scaled.dim(1)];
  return Multiply(Transposed(fit.weight), scaled);
}

TYPED_TEST(PartsTest, LogitsThereMinusBackAreTwiceTheAntisymmetricPart) {
  for (const Case& c : this->Cases()) {
    SCOPED_TRACE(c.name);
    QueryKeyView bare = c.pair;
    bare.query.bias = bare.key.bias = {};
    const Tensor<double> M = Merge(bare, Terms::kExact).matrix;
    Merged symmetric, antisymmetric;
    symmetric.matrix = SymmetricPart(M), antisymmetric.matrix = AntisymmetricPart(M);
    const Tensor<double> S = ExactLogits(bare, c.tokens, c.tokens, c.scale());
    const Tensor<double> S_s = Logits(symmetric, c.tokens, c.tokens, c.scale()),
                         S_a = Logits(antisymmetric, c.tokens, c.tokens, c.scale());
    const double tolerance = 2 * c.LogitTolerance(4);
    for (int64_t i = 0; i < c.N(); ++i) {
      EXPECT_NEAR(*S_s.view().at(i, i), *S.view().at(i, i), tolerance);
      EXPECT_NEAR(*S_a.view().at(i, i), 0, tolerance);
      for (int64_t j = 0; j < i; ++j) {
        EXPECT_NEAR(2 * *S_a.view().at(i, j), *S.view().at(i, j) - *S.view().at(j, i), tolerance);
        EXPECT_NEAR(*S_s.view().at(i, j), *S_s.view().at(j, i), tolerance);
      }
    }
  }
}

TYPED_TEST(PartsTest, TheScoreNeedsNoProduct) {
  for (const Case& c : this->Cases()) {
    SCOPED_TRACE(c.name);
    const Tensor<double> M = Multiply(Transposed(c.pair.query.weight), c.pair.key.weight);
    const double s = Norm(SymmetricPart(M)), a = Norm(AntisymmetricPart(M));
    const double exact = (s * s - a * a) / std::pow(Norm(M), 2);
    EXPECT_NEAR(SymmetryScore(M), exact, 1e-12);
    // Traces of products whose terms are ‖W_Q‖² ‖W_K‖² at most.
    const double condition = std::pow(Norm(c.pair.query.weight) * Norm(c.pair.key.weight) / Norm(M), 2);
    EXPECT_NEAR(SymmetryScore(c.pair.query.weight, c.pair.key.weight), exact, StepTolerance(4, c.D(), condition));
  }
}

TYPED_TEST(PartsTest, TheResidualOfAFitIsWhatItSays) {
  for (const Case& c : this->Cases()) {
    SCOPED_TRACE(c.name);
    const Tensor<double>&q = c.pair.query.weight, &k = c.pair.key.weight;
    const Tensor<double> M = Multiply(Transposed(q), k);
    const int64_t rank = std::min(c.E(), c.D());
    const double tolerance = StepTolerance(8, c.D(), Norm(q) * Norm(k) * 2);
    const SymmetricFit shared = FitShared(q, k, rank), symmetric = FitSymmetric(q, k, rank);
    for (const SymmetricFit* fit : {&shared, &symmetric}) {
      EXPECT_NEAR(Norm(Minus(M, Fitted(*fit))), fit->residual, tolerance);
      EXPECT_NEAR(fit->residual_relative * Norm(M), fit->residual, tolerance);
    }
    EXPECT_LE(symmetric.residual, shared.residual + tolerance);
    for (const double sign : shared.signs.span()) EXPECT_GE(sign, 0);
    // Neither can be better than the antisymmetric part, which no symmetric matrix touches.
    const double antisymmetric = Norm(AntisymmetricPart(M));
    EXPECT_GE(symmetric.residual, antisymmetric - tolerance);
    // M_s has rank 2E at most, so that with signs nothing else is left.
    const SymmetricFit all = FitSymmetric(q, k, c.D());
    EXPECT_NEAR(all.residual, antisymmetric, tolerance);
    // No small step in any direction makes the best shared weight better.
    Sampler sampler(51);
    for (int trial = 0; trial < 5 && !this->kTrained; ++trial) {
      SymmetricFit moved{shared.weight.Clone(), shared.signs.Clone(), 0, 0};
      for (double& x : moved.weight.span()) x += 0.01 * sampler.rng().Normal();
      for (double& x : moved.signs.span()) x = 1;
      EXPECT_GE(Norm(Minus(M, Fitted(moved))), shared.residual - tolerance);
    }
  }
}

TEST(Parts, ASharedProjectionIsItsOwnFit) {
  const auto w = Sampler(52).Normal<double>({4, 9});
  EXPECT_NEAR(SymmetryScore(w, w), 1, 1e-14);
  const SymmetricFit fit = FitShared(w, w, 4);
  EXPECT_LE(fit.residual_relative, 1e-14);
  // Of rank 2 it keeps the two greatest singular values of WᵀW.
  EXPECT_NEAR(FitShared(w, w, 2).residual, TailNorm(SingularValues(w, w), 2), 1e-12);
}

TEST(Parts, AnIndefiniteMatrixIsOutOfASharedProjectionsReach) {
  const auto w = Sampler(53).Normal<double>({3, 8});
  Tensor<double> signed_w = w.Clone();
  for (int64_t d = 0; d < 8; ++d) signed_w[d] = -signed_w[d];
  EXPECT_NEAR(SymmetryScore(w, signed_w), 1, 1e-14);
  EXPECT_LE(FitSymmetric(w, signed_w, 3).residual_relative, 1e-14);
  EXPECT_GT(FitShared(w, signed_w, 3).residual_relative, 0.1);
}

// "Look at the next token": with one-hot tokens M is the cyclic shift, which separate projections make exactly with
// E = D. Its symmetric part has the eigenvalues cos(2πk/N); the best shared fit keeps the positive ones.
TEST(Parts, TheBestSharedFitOfLookingAtTheNextToken) {
  for (const int64_t N : {3, 4, 7, 12}) {
    Tensor<double> identity({N, N}), shift({N, N});
    double residual = 0;
    for (int64_t i = 0; i < N; ++i) {
      identity[i * N + i] = 1, shift[i * N + (i + 1) % N] = 1;
      const double angle = 2 * std::numbers::pi * static_cast<double>(i) / static_cast<double>(N);
      residual += std::pow(std::sin(angle), 2) + std::pow(std::min(0.0, std::cos(angle)), 2);
    }
    const SymmetricFit fit = FitShared(identity, shift, N);
    EXPECT_NEAR(fit.residual, std::sqrt(residual), 1e-12);
    EXPECT_NEAR(fit.residual_relative, std::sqrt(residual / N), 1e-12);
    EXPECT_GT(fit.residual_relative, 0.8);
  }
}

TEST(Parts, AnAntisymmetricMatrixHasNothingToShare) {
  Tensor<double> query({2, 2}), key({2, 2});
  query[0] = query[3] = 1, key[1] = 1, key[2] = -1;
  EXPECT_NEAR(SymmetryScore(query, key), -1, 1e-15);
  const SymmetricFit fit = FitShared(query, key, 2);
  EXPECT_NEAR(fit.residual_relative, 1, 1e-15);
  EXPECT_EQ(Norm(fit.weight), 0);
}

TEST(Parts, WrongShapesAreRefused) {
  const Tensor<double> a({4, 6}), b({4, 5});
  EXPECT_THROW(SymmetricPart(a), Error);
  EXPECT_THROW(SymmetryScore(a), Error);
  EXPECT_THROW(SymmetryScore(a, b), Error);
  EXPECT_THROW(FitShared(a, a, 0), Error);
  EXPECT_THROW(FitShared(a, a, 7), Error);
}

}  // namespace
}  // namespace qkv::algebra
