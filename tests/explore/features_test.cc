// Principal components and cosines against plain sums.
#include "qkv/explore/features.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/support/sampler.h"

namespace qkv::explore {
namespace {

// Rows along three directions of unit length with the given deviations.
Tensor<float> ThreeDirections(int64_t R, int64_t D, const double (&deviation)[3], Tensor<float>* along) {
  Sampler sampler(5);
  *along = sampler.Normal<float>({R, 3}, 0, 1);
  Tensor<float> rows({R, D});
  for (int64_t r = 0; r < R; ++r) {
    for (int64_t c = 0; c < 3; ++c) {
      // Directions: every third feature, so that they are orthogonal.
      const auto factor = static_cast<float>(deviation[c] / std::sqrt(static_cast<double>(D / 3)));
      for (int64_t d = c; d < D / 3 * 3; d += 3) rows[r * D + d] += factor * (*along)[r * 3 + c];
    }
    for (int64_t d = 0; d < D; ++d) rows[r * D + d] += 7;  // a mean that is no component
  }
  return rows;
}

double Correlation(const std::vector<double>& a, const std::vector<double>& b) {
  const double n = static_cast<double>(a.size());
  double ma = 0, mb = 0, ab = 0, aa = 0, bb = 0;
  for (size_t i = 0; i < a.size(); ++i) ma += a[i] / n, mb += b[i] / n;
  for (size_t i = 0; i < a.size(); ++i) {
    ab += (a[i] - ma) * (b[i] - mb), aa += (a[i] - ma) * (a[i] - ma), bb += (b[i] - mb) * (b[i] - mb);
  }
  return ab / std::sqrt(aa * bb);
}

// Fewer rows than features, and more.
TEST(Features, ColoursAreTheComponentsInTheirOrder) {
  for (const auto& [R, D] : {std::pair<int64_t, int64_t>{40, 60}, {300, 31}}) {
    Tensor<float> along;
    const Tensor<float> rows = ThreeDirections(R, D, {9, 3, 1}, &along);
    const FeatureColours result = ColoursOf(rows);
    EXPECT_GT(result.shares[0], 0.7);
    EXPECT_GT(result.shares[0], result.shares[1]);
    EXPECT_GT(result.shares[1], result.shares[2]);
    EXPECT_NEAR(result.shares[0] + result.shares[1] + result.shares[2], 1, 1e-4);
    for (int64_t c = 0; c < 3; ++c) {
      std::vector<double> ours, theirs;
      for (int64_t r = 0; r < R; ++r) ours.push_back(result.colours[r * 3 + c]), theirs.push_back(along[r * 3 + c]);
      EXPECT_GT(std::abs(Correlation(ours, theirs)), 0.9) << R << " " << c;
      EXPECT_EQ(*std::max_element(ours.begin(), ours.end()), 255);
      EXPECT_EQ(*std::min_element(ours.begin(), ours.end()), 0);
    }
  }
}

TEST(Features, RowsWithoutVarianceAreGrey) {
  Tensor<float> rows({4, 5});
  for (float& value : rows.span()) value = 3;
  const FeatureColours result = ColoursOf(rows);
  for (const uint8_t value : result.colours.span()) EXPECT_EQ(value, 128);
  for (const float share : result.shares.span()) EXPECT_EQ(share, 0);
  // A single patch has no variance either.
  EXPECT_EQ(ColoursOf(rows.view().slice(0, 0, 1)).colours.dim(0), 1);
}

TEST(Features, CosinesAreThoseOfRows) {
  Sampler sampler(2);
  Tensor<float> rows = sampler.Normal<float>({7, 13}, 0, 2);
  std::fill_n(rows.data() + 3 * 13, 13, 0.0f);
  const Tensor<float> cosines = Cosines(rows);
  for (int64_t i = 0; i < 7; ++i) {
    for (int64_t j = 0; j < 7; ++j) {
      double ij = 0, ii = 0, jj = 0;
      for (int64_t d = 0; d < 13; ++d) {
        const double a = rows[i * 13 + d], b = rows[j * 13 + d];
        ij += a * b, ii += a * a, jj += b * b;
      }
      const double expected = ii * jj > 0 ? ij / std::sqrt(ii * jj) : 0;
      EXPECT_NEAR(cosines[i * 7 + j], expected, 1e-6);
      EXPECT_NEAR(Cosine({rows.data() + i * 13, 13}, {rows.data() + j * 13, 13}), expected, 1e-6);
    }
  }
}

}  // namespace
}  // namespace qkv::explore
