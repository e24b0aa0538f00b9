// Note 6, claim C8: how many parameters there are, and how many of them the logits see.
#include "qkv/algebra/freedom.h"

#include "qkv/algebra/spectrum.h"
#include "tests/algebra/support.h"

namespace qkv::algebra {
namespace {

// The rank of the derivative of AᵀB in A [E, m] and B [E, n] at a random point: the true dimension of what is reached.
int64_t JacobianRank(int64_t E, int64_t m, int64_t n) {
  Sampler sampler(31);
  const auto a = sampler.Normal<double>({E, m}), b = sampler.Normal<double>({E, n});
  Tensor<double> jacobian({E * (m + n), m * n});
  for (int64_t e = 0; e < E; ++e) {
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        *jacobian.view().at(e * m + i, i * n + j) = b[e * n + j];
        *jacobian.view().at(E * m + e * n + j, i * n + j) = a[e * m + i];
      }
    }
  }
  const auto s = SingularValues(jacobian);
  return NumericalRank(s, std::max(E * (m + n), m * n));
}

TEST(Freedom, EqualsTheRankOfTheDerivative) {
  for (const int64_t D : {1, 3, 5}) {
    for (const int64_t E : {1, 2, 3, 4, 5, 7}) {
      EXPECT_EQ(CountParameters(D, E, false, Terms::kExact).freedom, JacobianRank(E, D, D)) << D << " " << E;
      EXPECT_EQ(CountParameters(D, E, true, Terms::kSoftmax).freedom, JacobianRank(E, D + 1, D)) << D << " " << E;
      EXPECT_EQ(CountParameters(D, E, true, Terms::kExact).freedom, JacobianRank(E, D + 1, D + 1)) << D << " " << E;
    }
  }
}

TEST(Freedom, ViTBase) {
  const ParameterCount count = CountParameters(768, 64, false, Terms::kSoftmax);
  EXPECT_EQ(count.separate, 2 * 768 * 64);
  EXPECT_EQ(count.freedom, 2 * 768 * 64 - 64 * 64);
  EXPECT_EQ(count.identity_block, count.freedom);
  EXPECT_EQ(count.merged, 768 * 768);
  // 1/(2H) of the pair.
  EXPECT_EQ(24 * (count.separate - count.identity_block), count.separate);
}

TEST(Freedom, MergedStoresLessIffHeadsAreWiderThanHalfTheModel) {
  for (int64_t D = 1; D < 20; ++D) {
    for (int64_t E = 1; E < 30; ++E) {
      const ParameterCount count = CountParameters(D, E, false, Terms::kExact);
      EXPECT_EQ(count.merged<count.separate, 2 * E> D);
      EXPECT_EQ(count.merged == count.separate, 2 * E == D);
      EXPECT_LE(count.freedom, std::min(count.merged, count.separate));
    }
  }
  // The text's shape, D 3 and E 4: 9 against 24, not "the same number".
  EXPECT_EQ(CountParameters(3, 4, false, Terms::kExact).merged, 9);
  EXPECT_EQ(CountParameters(3, 4, false, Terms::kExact).separate, 24);
  EXPECT_THROW(CountParameters(0, 4, false, Terms::kExact), Error);
}

}  // namespace
}  // namespace qkv::algebra
