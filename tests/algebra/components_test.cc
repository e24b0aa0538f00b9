// Principal components against their definition.
#include "qkv/algebra/components.h"

#include <gtest/gtest.h>

#include <limits>

#include "tests/support/sampler.h"

namespace qkv::algebra {
namespace {

// Fewer rows than features, and more: all components together give every product of two centred rows, each is
// orthogonal to the others, and their squares are their shares of the whole.
TEST(PrincipalComponents, TogetherGiveTheProductsOfRows) {
  for (const auto& [R, D] : {std::pair<int64_t, int64_t>{5, 9}, {9, 5}, {6, 6}, {1, 3}}) {
    Sampler sampler(static_cast<uint64_t>(R));
    const Tensor<float> rows = sampler.Normal<float>({R, D}, 3, 2);
    const int64_t count = R + D;  // more than there are
    const PrincipalComponents components = FindPrincipalComponents(rows, count);

    Tensor<double> centred({R, D});
    for (int64_t d = 0; d < D; ++d) {
      double mean = 0;
      for (int64_t r = 0; r < R; ++r) mean += static_cast<double>(rows[r * D + d]) / static_cast<double>(R);
      for (int64_t r = 0; r < R; ++r) centred[r * D + d] = static_cast<double>(rows[r * D + d]) - mean;
    }
    double all = 0;
    for (const double x : centred.span()) all += x * x;
    // Each product is a sum of at most R + D terms, and the eigenvalues have the rounding of their greatest.
    const double tolerance = 100 * static_cast<double>(R + D) * std::numeric_limits<double>::epsilon() * (all + 1);
    for (int64_t i = 0; i < R; ++i) {
      for (int64_t j = 0; j < R; ++j) {
        double expected = 0, product = 0;
        for (int64_t d = 0; d < D; ++d) expected += centred[i * D + d] * centred[j * D + d];
        for (int64_t c = 0; c < count; ++c) product += components.places[c * R + i] * components.places[c * R + j];
        EXPECT_NEAR(product, expected, tolerance) << R << " rows, " << D << " features";
      }
    }
    for (int64_t a = 0; a < count; ++a) {
      double cubes = 0;
      for (int64_t r = 0; r < R; ++r) {
        const double place = components.places[a * R + r];
        cubes += place * place * place;
      }
      EXPECT_GE(cubes, 0);
      for (int64_t b = 0; b < count; ++b) {
        double product = 0;
        for (int64_t r = 0; r < R; ++r) product += components.places[a * R + r] * components.places[b * R + r];
        EXPECT_NEAR(product, a == b ? components.shares[a] * all : 0, tolerance);
      }
      if (a > 0) {
        EXPECT_LE(components.shares[a], components.shares[a - 1]);
      }
    }
  }
}

}  // namespace
}  // namespace qkv::algebra
