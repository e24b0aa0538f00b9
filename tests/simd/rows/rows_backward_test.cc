// The gradient of LayerNorm and sums over rows, against the formulas in extended precision.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <vector>

#include "qkv/simd/rows/elementwise_backward.h"
#include "tests/support/isas.h"
#include "tests/support/sampler.h"
#include "tests/support/tolerance.h"

namespace qkv::simd {
namespace {

class RowsGradientTest : public IsaTest {};
QKV_FOR_ALL_ISAS(RowsGradientTest);

// Every remainder of two vectors, of the four that columns are summed by, and widths of models.
const int64_t kWidths[] = {1,  2,  3,  4,  5,  7,  8,  9,  12, 13, 15, 16,  17,  23,  24,
                           25, 31, 32, 33, 47, 48, 49, 63, 64, 65, 79, 100, 129, 192, 768};

template <typename T>
struct Rows {
  Rows(int64_t row_count, int64_t D, double mean, int64_t padding, NormKind norm = NormKind::kLayer)
      : stride(D + padding),
        kind(norm),
        x(Sampler(1).Normal<T>({row_count, stride}, mean)),
        dy(Sampler(2).Normal<T>({row_count, stride})),
        gamma(Sampler(3).Normal<T>({D}, 1, 0.5)),
        moments({row_count, 2}) {
    RowMoments<T>(x.data(), stride, row_count, D, {static_cast<T>(1e-5), kind}, moments.data());
  }
  NormedRows<T> view() const { return {x.data(), stride, moments.data(), dy.data(), stride, x.dim(0), kind}; }

  int64_t stride;
  NormKind kind;
  Tensor<T> x, dy, gamma, moments;
};

template <typename T>
void CheckRows(int64_t D, double mean, bool with_gamma, int64_t padding, NormKind kind = NormKind::kLayer) {
  constexpr int64_t kRows = 5;
  const Rows<T> rows(kRows, D, mean, padding, kind);
  const auto before = Sampler(4).Normal<T>({kRows, rows.stride});
  auto dx = before.Clone(), sum = before.Clone();
  const T* gamma = with_gamma ? rows.gamma.data() : nullptr;
  NormGradient<T>(rows.view(), D, gamma, dx.data(), rows.stride, false);
  NormGradient<T>(rows.view(), D, gamma, sum.data(), rows.stride, true);
  const auto factor = [&](int64_t i) { return with_gamma ? static_cast<long double>(gamma[i]) : 1.0L; };
  for (int64_t r = 0; r < kRows; ++r) {
    const T *x = rows.x.data() + r * rows.stride, *dy = rows.dy.data() + r * rows.stride;
    const long double row_mean = rows.moments[2 * r], rstd = rows.moments[2 * r + 1];
    long double g_mean = 0, product_mean = 0;
    double g_size = 0, product_size = 0;  // means of magnitudes
    for (int64_t i = 0; i < D; ++i) {
      const long double normalised = (x[i] - row_mean) * rstd, g = dy[i] * factor(i);
      g_mean += g / D, product_mean += g * normalised / D;
      g_size += static_cast<double>(std::abs(g)) / D, product_size += static_cast<double>(std::abs(g * normalised)) / D;
    }
    if (kind == NormKind::kRms) g_mean = 0;
    for (int64_t i = 0; i < D; ++i) {
      const long double normalised = (x[i] - row_mean) * rstd, g = dy[i] * factor(i);
      const auto exact = static_cast<double>(rstd * (g - g_mean - normalised * product_mean));
      // Roundings of each term, two sums of D terms, and x − mean, which loses what x is greater than it.
      const double u = UnitRoundoff<T>(), size = static_cast<double>(std::abs(normalised));
      const double error =
          static_cast<double>(rstd) * (DotTolerance<T>(D, g_size) + DotTolerance<T>(D, product_size) * (1 + size) +
                                       4 * u * (static_cast<double>(std::abs(g)) + g_size + size * product_size));
      const int64_t at = r * rows.stride + i;
      ASSERT_NEAR(dx[at], exact, error) << "D " << D << " row " << r << " column " << i;
      ASSERT_NEAR(sum[at], before[at] + exact, error + 2 * u * (std::abs(before[at]) + std::abs(exact))) << "D " << D;
    }
    for (int64_t i = D; i < rows.stride; ++i) ASSERT_EQ(dx[r * rows.stride + i], before[r * rows.stride + i]);
  }
}

TEST_P(RowsGradientTest, LayerNorm) {
  for (const int64_t D : kWidths) {
    for (const bool gamma : {false, true}) {
      CheckRows<float>(D, 0, gamma, D % 3);
      CheckRows<double>(D, 0, gamma, D % 3);
    }
    CheckRows<float>(D, 30, true, 0);
    CheckRows<float>(D, 3, true, 1, NormKind::kRms);
    CheckRows<double>(D, 3, false, 0, NormKind::kRms);
  }
}

TEST_P(RowsGradientTest, LayerNormInPlace) {
  for (const int64_t D : {5, 37, 64}) {
    const Rows<float> rows(6, D, 0, 1);
    auto dx = Tensor<float>({6, D + 1}), over_dy = rows.dy.Clone(), over_x = rows.x.Clone();
    NormGradient<float>(rows.view(), D, rows.gamma.data(), dx.data(), D + 1, false);
    NormedRows<float> view = rows.view();
    view.dy = over_dy.data();
    NormGradient<float>(view, D, rows.gamma.data(), over_dy.data(), D + 1, false);
    view = rows.view(), view.x = over_x.data();
    NormGradient<float>(view, D, rows.gamma.data(), over_x.data(), D + 1, false);
    for (int64_t r = 0; r < 6; ++r) {
      for (int64_t i = 0; i < D; ++i) {
        ASSERT_EQ(over_dy[r * (D + 1) + i], dx[r * (D + 1) + i]);
        ASSERT_EQ(over_x[r * (D + 1) + i], dx[r * (D + 1) + i]);
      }
    }
  }
}

// Sums over rows are added to what is there. 1 row, blocks of 64 and what is left of them.
template <typename T>
void CheckSums(int64_t row_count, int64_t columns) {
  const int64_t padding = columns % 3;
  const Rows<T> rows(row_count, columns, 2, padding);
  const auto before = Sampler(5).Normal<T>({4, columns + 1});
  auto got = before.Clone();
  T *dgamma = got.data(), *dbeta = dgamma + columns + 1, *sum = dbeta + columns + 1, *products = sum + columns + 1;
  AddNormParameterGradients<T>(rows.view(), columns, dgamma, dbeta);
  AddRows<T>(rows.x.data(), rows.stride, row_count, columns, sum);
  AddRowProducts<T>(rows.x.data(), rows.stride, rows.dy.data(), rows.stride, row_count, columns, T{3}, products);
  for (int64_t i = 0; i < columns; ++i) {
    long double exact[4] = {};
    double size[4] = {};
    for (int64_t k = 0; k < 4; ++k) {
      exact[k] = before[k * (columns + 1) + i], size[k] = std::abs(static_cast<double>(exact[k]));
    }
    double cancelled = 0;  // by x − mean
    for (int64_t r = 0; r < row_count; ++r) {
      const long double x = rows.x[r * rows.stride + i], dy = rows.dy[r * rows.stride + i];
      const long double mean = rows.moments[2 * r], rstd = rows.moments[2 * r + 1];
      const long double terms[4] = {dy * (x - mean) * rstd, dy, x, 3 * x * dy};
      for (int64_t k = 0; k < 4; ++k) exact[k] += terms[k], size[k] += static_cast<double>(std::abs(terms[k]));
      cancelled += static_cast<double>(std::abs(terms[0])) * 3 * UnitRoundoff<T>();
    }
    for (int64_t k = 0; k < 4; ++k) {
      ASSERT_NEAR(got[k * (columns + 1) + i], static_cast<double>(exact[k]),
                  DotTolerance<T>(row_count + 1, size[k]) + (k == 0 ? cancelled : 2 * UnitRoundoff<T>() * size[k]))
          << "sum " << k << " of " << row_count << " rows, column " << i << " of " << columns;
    }
  }
  for (int64_t k = 0; k < 4; ++k) {
    ASSERT_EQ(got[k * (columns + 1) + columns], before[k * (columns + 1) + columns]) << "wrote past the end";
  }
}

TEST_P(RowsGradientTest, Sums) {
  for (const int64_t rows : {1, 3, 64, 65, 200}) {
    for (const int64_t columns : kWidths) {
      CheckSums<float>(rows, columns);
      CheckSums<double>(rows, columns);
    }
  }
}

// A matrix may be cut anywhere between columns.
TEST_P(RowsGradientTest, AColumnDoesNotDependOnItsPlace) {
  const Rows<float> rows(150, 100, 1, 0);
  Tensor<float> whole({100}), whole_gamma({100});
  AddRows<float>(rows.x.data(), 100, 150, 100, whole.data());
  AddNormParameterGradients<float>(rows.view(), 100, whole_gamma.data(), nullptr);
  for (int64_t i = 0; i < 100; ++i) {
    float alone = 0, alone_gamma = 0;
    AddRows<float>(rows.x.data() + i, 100, 150, 1, &alone);
    NormedRows<float> view = rows.view();
    view.x += i, view.dy += i;
    AddNormParameterGradients<float>(view, 1, &alone_gamma, nullptr);
    ASSERT_EQ(std::bit_cast<uint32_t>(alone), std::bit_cast<uint32_t>(whole[i])) << i;
    ASSERT_EQ(std::bit_cast<uint32_t>(alone_gamma), std::bit_cast<uint32_t>(whole_gamma[i])) << i;
  }
}

}  // namespace
}  // namespace qkv::simd
