// Dot products of rows with queries, and the rows' squares.
#include "qkv/simd/rows/dot_rows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "qkv/simd/rows/reference.h"
#include "tests/support/isas.h"
#include "tests/support/sampler.h"
#include "tests/support/tolerance.h"

namespace qkv::simd {
namespace {

class DotRowsTest : public IsaTest {};
QKV_FOR_ALL_ISAS(DotRowsTest);

// Rows and queries lie `padding` elements apart.
void CheckDotRows(int64_t R, int64_t Q, int64_t D, int64_t padding) {
  Sampler sampler(static_cast<uint64_t>(R * 100 + Q * 10 + D));
  const auto x = sampler.Normal<float>({R, D + padding}), y = sampler.Normal<float>({Q, D + padding});
  const View<const float> rows = x.view().slice(1, 0, D), queries = y.view().slice(1, 0, D);
  Tensor<float> dots({Q, R}), squares({R + 1});
  squares[R] = 7;
  DotRows(rows, queries, dots.view(), squares.data());
  EXPECT_EQ(squares[R], 7) << "wrote past the rows";
  for (int64_t r = 0; r < R; ++r) {
    const std::vector<double> row(rows.row(r), rows.row(r) + D);
    double exact = 0, magnitude = 0;
    for (int64_t q = 0; q < Q; ++q) {
      const std::vector<double> query(queries.row(q), queries.row(q) + D);
      reference::MatMul(row.data(), query.data(), 1, 1, D, &exact, &magnitude);
      ASSERT_NEAR(*dots.view().at(q, r), exact, DotTolerance<float>(D, magnitude))
          << "R " << R << " Q " << Q << " D " << D << " row " << r << " query " << q;
    }
    reference::MatMul(row.data(), row.data(), 1, 1, D, &exact, &magnitude);
    ASSERT_NEAR(squares[r], exact, DotTolerance<float>(D, magnitude)) << "R " << R << " D " << D << " row " << r;
  }
}

TEST_P(DotRowsTest, EqualsTheReference) {
  for (int64_t D = 1; D <= 2 * 16 + 1; ++D) CheckDotRows(5, 6, D, D % 3);
  for (const int64_t D : {63, 64, 65, 384, 512, 1000}) CheckDotRows(9, 5, D, 0);
  for (int64_t R = 0; R <= 9; ++R) {
    for (int64_t Q = 1; Q <= 9; ++Q) CheckDotRows(R, Q, 21, 1);
  }
}

// Whatever stands beside them.
TEST_P(DotRowsTest, EqualRowsHaveEqualResults) {
  constexpr int64_t kRows = 11, kQueries = 7, kWidth = 45;
  Sampler sampler(5);
  auto rows = sampler.Normal<float>({kRows, kWidth}), queries = sampler.Normal<float>({kQueries, kWidth});
  for (int64_t r = 1; r < kRows; ++r) std::copy_n(rows.data(), kWidth, rows.view().row(r));
  for (int64_t q = 1; q < kQueries; ++q) std::copy_n(queries.data(), kWidth, queries.view().row(q));
  Tensor<float> dots({kQueries, kRows}), squares({kRows});
  DotRows(rows.view(), queries.view(), dots.view(), squares.data());
  for (const float dot : dots.span()) EXPECT_EQ(dot, dots[0]);
  for (const float square : squares.span()) EXPECT_EQ(square, squares[0]);
}

TEST_P(DotRowsTest, PropagatesNaNInItsRowAlone) {
  Tensor<float> rows({6, 19}), queries({1, 19}), dots({1, 6}), squares({6});
  for (float& x : rows.span()) x = 1;
  for (float& x : queries.span()) x = 1;
  *rows.view().at(2, 18) = std::numeric_limits<float>::quiet_NaN();
  *rows.view().at(4, 0) = std::numeric_limits<float>::infinity();
  DotRows(rows.view(), queries.view(), dots.view(), squares.data());
  for (const int64_t r : {0, 1, 3, 5}) EXPECT_EQ(dots[r], 19) << r;
  EXPECT_TRUE(std::isnan(dots[2]) && std::isnan(squares[2]));
  EXPECT_TRUE(std::isinf(dots[4]) && std::isinf(squares[4]));
}

TEST(DotRows, RefusesOtherShapes) {
  Tensor<float> rows({2, 3}), queries({1, 4}), dots({1, 2}), squares({2});
  EXPECT_THROW(DotRows(rows.view(), queries.view(), dots.view(), squares.data()), Error);
  EXPECT_THROW(DotRows(rows.view(), View<const float>(queries.data(), {0, 3}), dots.view(), squares.data()), Error);
}

}  // namespace
}  // namespace qkv::simd
