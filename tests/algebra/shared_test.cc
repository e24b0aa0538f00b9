// Note 16, claim C4: what a shared projection can never do, and that others can.
#include "qkv/algebra/shared.h"

#include <numeric>

#include "qkv/algebra/parts.h"
#include "qkv/algebra/spectrum.h"
#include "tests/algebra/support.h"

namespace qkv::algebra {
namespace {

QKV_HEAD_TEST_SUITE(SharedTest);

std::vector<int64_t> Cycle(int64_t N) {
  std::vector<int64_t> next(static_cast<size_t>(N));
  for (int64_t i = 0; i < N; ++i) next[static_cast<size_t>(i)] = (i + 1) % N;
  return next;
}

TYPED_TEST(SharedTest, EverySharedProjectionPasses) {
  for (const Case& c : this->Cases()) {
    SCOPED_TRACE(c.name);
    for (const Projection* projection : {&c.pair.query, &c.pair.key}) {
      const QueryKeyView pair{*projection, *projection};
      const Tensor<double> S = Logits(pair, c.tokens, c.tokens, c.scale());
      const double tolerance = StepTolerance(
          3, c.largest() + 1, c.scale() * std::pow(TokenNorm(c.tokens), 2) * std::pow(SideNorm(*projection), 2));
      EXPECT_LE(PairExcess(S), 4 * tolerance);
      EXPECT_LE(CycleExcess(S, Cycle(c.N())), 2 * c.N() * tolerance);
      EXPECT_LE(BalanceError(S), 6 * tolerance);
      // The attention: real eigenvalues in [0, 1]. A is similar to a symmetric matrix by D^½, whose condition bounds
      // how far rounding moves them (Bauer and Fike).
      const Tensor<double> exact = ExactLogits(pair, c.tokens, c.tokens, c.scale());
      double low = INFINITY, high = 0;
      for (int64_t i = 0; i < c.N(); ++i) {
        double sum = 0;
        for (int64_t j = 0; j < c.N(); ++j) sum += std::exp(*exact.view().at(i, j) - *exact.view().at(0, 0));
        low = std::min(low, sum), high = std::max(high, sum);
      }
      const Tensor<double> A = ExactSoftmax(exact);
      const double moved = std::sqrt(high / low) * StepTolerance(10, c.N(), Norm(A));
      for (const std::complex<double> z : Eigenvalues(A)) {
        EXPECT_NEAR(z.imag(), 0, moved);
        EXPECT_GE(z.real(), -moved);
        EXPECT_LE(z.real(), 1 + moved);
      }
    }
  }
}

TYPED_TEST(SharedTest, SeparateProjectionsFail) {
  for (const Case& c : this->Cases()) {
    SCOPED_TRACE(c.name);
    const Tensor<double> S = Logits(c.pair, c.tokens, c.tokens, c.scale());
    EXPECT_GT(PairExcess(S), 0.01);
    EXPECT_GT(BalanceError(S), 0.01);
  }
}

// Separate projections look at the next token as sharply as one likes, and no shared one can at all.
TEST(Shared, LookingAtTheNextTokenIsImpossible) {
  const int64_t N = 6;
  Tensor<double> identity({N, N}), shift({N, N});
  for (int64_t i = 0; i < N; ++i) identity[i * N + i] = 1, shift[i * N + (i + 1) % N] = 1;
  // Token i is the i-th unit vector: q_i = e_i, k_j = e_{j−1}.
  const QueryKeyView pair{{identity, {}}, {shift, {}}};
  const Tensor<double> S = Logits(pair, identity, identity, 50);
  const Tensor<double> A = Softmax(S);
  for (int64_t i = 0; i < N; ++i) EXPECT_GT(*A.view().at(i, (i + 1) % N), 1 - 1e-12);
  EXPECT_NEAR(CycleExcess(S, Cycle(N)), 50.0 * N, 1e-9);
  EXPECT_NEAR(PairExcess(S), 50, 1e-9);
  // From the attention alone as well: a row's constant drops out.
  const auto mild = Softmax(Logits(pair, identity, identity, 2));
  Tensor<double> log = mild.Clone();
  for (double& x : log.span()) x = std::log(x);
  EXPECT_NEAR(CycleExcess(log, Cycle(N)), 2.0 * N, 1e-12);
  // The nearest shared weight does not look ahead: it sees the token itself at least as much as its successor.
  const SymmetricFit fit = FitShared(identity, shift, N);
  const Tensor<double> best = Softmax(Logits(QueryKeyView{{fit.weight, {}}, {fit.weight, {}}}, identity, identity, 50));
  for (int64_t i = 0; i < N; ++i) EXPECT_GE(*best.view().at(i, i), *best.view().at(i, (i + 1) % N));
}

TEST(Shared, OneTokenMayLookAway) {
  // q = 1, 3: token 0 prefers token 1 to itself. The logits are not diagonally dominant, and nothing is violated.
  Tensor<double> weight({1, 1}), tokens({2, 1});
  weight[0] = 1, tokens[0] = 1, tokens[1] = 3;
  const Tensor<double> S = Logits(QueryKeyView{{weight, {}}, {weight, {}}}, tokens, tokens, 1);
  EXPECT_GT(S[1], S[0]);
  EXPECT_EQ(PairExcess(S), -4);
  EXPECT_EQ(CycleExcess(S, std::vector<int64_t>{1, 0}), -4);
}

TEST(Shared, ASymmetricIndefiniteMatrixIsBalancedButNotShared) {
  Tensor<double> query({2, 2}), key({2, 2});  // M = [[0, 1], [1, 0]]: each looks at the other
  query[0] = query[3] = 1, key[1] = key[2] = 1;
  Tensor<double> tokens({3, 2});
  tokens[0] = tokens[3] = 1, tokens[4] = 0.3, tokens[5] = -0.7;
  const Tensor<double> S = Logits(QueryKeyView{{query, {}}, {key, {}}}, tokens, tokens, 1);
  EXPECT_NEAR(BalanceError(S), 0, 1e-15);
  EXPECT_GE(PairExcess(S), 2);
  // The attention's eigenvalues are real, but not all positive.
  double least = 1;
  for (const std::complex<double> z : Eigenvalues(Softmax(S))) {
    EXPECT_NEAR(z.imag(), 0, 1e-12);
    least = std::min(least, z.real());
  }
  EXPECT_LT(least, -0.1);
}

TEST(Shared, KnownValues) {
  const std::vector<double> values{0, 1, 5, 2, 0, -1, 3, 7, 0};
  Tensor<double> S({3, 3});
  std::copy(values.begin(), values.end(), S.data());
  EXPECT_EQ(PairExcess(S), 8);                                  // 5 + 3
  EXPECT_EQ(CycleExcess(S, std::vector<int64_t>{1, 2, 0}), 3);  // 1 − 1 + 3
  EXPECT_EQ(CycleExcess(S, std::vector<int64_t>{0, 1, 2}), 0);
  EXPECT_EQ(BalanceError(S), std::abs((1 - 2) + (-1 - 7) + (3 - 5)));
}

TEST(Shared, WrongRequestsAreRefused) {
  const Tensor<double> S({3, 3}), wide({3, 4});
  EXPECT_THROW(PairExcess(wide), Error);
  EXPECT_THROW(CycleExcess(S, std::vector<int64_t>{0, 1}), Error);
  EXPECT_THROW(CycleExcess(S, std::vector<int64_t>{0, 1, 1}), Error);
  EXPECT_THROW(CycleExcess(S, std::vector<int64_t>{0, 1, 3}), Error);
  EXPECT_THROW(BalanceError(wide), Error);
}

}  // namespace
}  // namespace qkv::algebra
