// LayerNorm, RMSNorm and softmax.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "qkv/simd/rows/elementwise.h"
#include "qkv/simd/rows/reference.h"
#include "tests/support/isas.h"
#include "tests/support/sampler.h"
#include "tests/support/tolerance.h"

namespace qkv::simd {
namespace {

class RowsTest : public IsaTest {};
QKV_FOR_ALL_ISAS(RowsTest);

const int64_t kWidths[] = {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 192, 768, 1000};

double Norm(const double* x, int64_t n) { return std::sqrt(std::inner_product(x, x + n, x, 0.0)); }

template <typename T>
void CheckNorm(int64_t D, NormKind kind, double mean, bool with_gamma, bool with_beta, int64_t padding) {
  constexpr int64_t kRows = 3;
  const T eps = static_cast<T>(1e-6);
  Sampler sampler(static_cast<uint64_t>(D));
  const auto x = sampler.Normal<T>({kRows, D + padding}, mean), gamma = sampler.Normal<T>({D}, 1, 0.5),
             beta = sampler.Normal<T>({D});
  auto y = Tensor<T>({kRows, D + padding});
  NormRows<T>(x.data(), D + padding, kRows, D, with_gamma ? gamma.data() : nullptr, with_beta ? beta.data() : nullptr,
              {eps, kind}, y.data(), D + padding);
  const auto x64 = Cast<double>(x), gamma64 = Cast<double>(gamma), beta64 = Cast<double>(beta);
  std::vector<double> exact(D);
  for (int64_t r = 0; r < kRows; ++r) {
    const double* row = x64.data() + r * (D + padding);
    reference::NormRows(row, 1, D, with_gamma ? gamma64.data() : nullptr, with_beta ? beta64.data() : nullptr,
                        {eps, kind}, exact.data());
    double average = 0, variance = 0;
    for (int64_t d = 0; kind == NormKind::kLayer && d < D; ++d) average += row[d] / static_cast<double>(D);
    for (int64_t d = 0; d < D; ++d) variance += (row[d] - average) * (row[d] - average) / static_cast<double>(D);
    const double rstd = 1 / std::sqrt(variance + eps);
    // The mean is right to a few roundings of |x|; that shifts the centred row, and scales with rstd.
    const double mean_error = 4 * UnitRoundoff<T>() * Norm(row, D) / std::sqrt(static_cast<double>(D)) * rstd;
    for (int64_t d = 0; d < D; ++d) {
      const double g = with_gamma ? gamma64[d] : 1, b = with_beta ? beta64[d] : 0;
      const double centred = std::abs((row[d] - average) * rstd);
      const double tolerance = std::abs(g) * (mean_error * (1 + centred) + 8 * UnitRoundoff<T>() * (centred + 1e-3)) +
                               2 * UnitRoundoff<T>() * std::abs(b);
      ASSERT_NEAR(y[r * (D + padding) + d], exact[d], tolerance) << "D " << D << " row " << r << " column " << d;
    }
    for (int64_t d = D; d < D + padding; ++d) ASSERT_EQ(y[r * (D + padding) + d], 0) << "wrote past the row";
  }
}

// A sum of squares beyond the type: the row is lost, and must not look like one of equal features. The rows beside it
// are as they were.
template <typename T>
void CheckOverflow(int64_t D) {
  constexpr int64_t kRows = 3;
  const T huge = std::sqrt(std::numeric_limits<T>::max()) * 4;
  auto x = Sampler(static_cast<uint64_t>(D)).Normal<T>({kRows, D});
  Tensor<T> y({kRows, D}), moments({kRows, 2});
  x[D] = huge, x[2 * D - 1] = -huge;
  NormRows<T>(x.data(), D, kRows, D, nullptr, nullptr, T(1e-6), y.data(), D);
  RowMoments<T>(x.data(), D, kRows, D, T(1e-6), moments.data());
  for (int64_t i = 0; i < y.size(); ++i) ASSERT_EQ(std::isnan(y[i]), i / D == 1) << "D " << D << " element " << i;
  for (int64_t r = 0; r < kRows; ++r) ASSERT_EQ(std::isnan(moments[2 * r + 1]), r == 1);
}

TEST_P(RowsTest, LayerNormOfARowThatOverflows) {
  for (const int64_t D : kWidths) {
    if (D == 1) continue;  // has no variance
    CheckOverflow<float>(D);
    CheckOverflow<double>(D);
  }
}

TEST_P(RowsTest, Norms) {
  for (const int64_t D : kWidths) {
    for (const double mean : {0.0, 30.0}) {  // a large mean is where one pass would lose the variance
      for (const NormKind kind : {NormKind::kLayer, NormKind::kRms}) {
        CheckNorm<float>(D, kind, mean, true, true, 3);
        CheckNorm<float>(D, kind, mean, true, false, 0);
        CheckNorm<float>(D, kind, mean, false, true, 1);
        CheckNorm<float>(D, kind, mean, false, false, 0);
        CheckNorm<double>(D, kind, mean, true, true, 1);
      }
    }
  }
}

TEST_P(RowsTest, LayerNormInPlace) {
  const auto x = Sampler(1).Normal<float>({5, 77}), gamma = Sampler(2).Normal<float>({77});
  auto y = Tensor<float>({5, 77}), in_place = x.Clone();
  NormRows<float>(x.data(), 77, 5, 77, gamma.data(), nullptr, 1e-5f, y.data(), 77);
  NormRows<float>(in_place.data(), 77, 5, 77, gamma.data(), nullptr, 1e-5f, in_place.data(), 77);
  for (int64_t i = 0; i < y.size(); ++i) ASSERT_EQ(y[i], in_place[i]);
}

TEST_P(RowsTest, Softmax) {
  for (int64_t n = 1; n <= 200; n += n < 40 ? 1 : 23) {
    auto x = Sampler(static_cast<uint64_t>(n)).Normal<float>({n}, 5, 4);
    auto x64 = Cast<double>(x);
    Softmax(x.data(), n);
    reference::Softmax(x64.data(), n);
    for (int64_t i = 0; i < n; ++i) {
      // The difference to the maximum is rounded once: that error is multiplied by it.
      const double spread = std::abs(std::log(x64[i])) + 4;
      ASSERT_NEAR(x[i], x64[i], (spread + 6) * UnitRoundoff<float>() * x64[i]) << n;
    }
  }
}

template <typename T>
void CheckSoftmaxEdges() {
  const T inf = std::numeric_limits<T>::infinity();
  std::vector<T> hidden(37, -inf);
  Softmax(hidden.data(), 37);
  for (const T w : hidden) ASSERT_EQ(w, 0);
  std::vector<T> shared(37, 1);
  shared[3] = shared[36] = inf, shared[4] = -inf;
  Softmax(shared.data(), 37);
  for (size_t i = 0; i < 37; ++i) ASSERT_EQ(shared[i], i == 3 || i == 36 ? T{0.5} : T{0}) << i;
  std::vector<T> huge(5, std::numeric_limits<T>::max());
  Softmax(huge.data(), 5);
  for (const T w : huge) ASSERT_NEAR(w, 0.2, 1e-7);
  std::vector<T> partly(20, -inf);
  partly[19] = -5;
  Softmax(partly.data(), 20);
  ASSERT_EQ(partly[19], 1);
  ASSERT_EQ(partly[0], 0);
  std::vector<T> nan(20, 0);
  nan[7] = std::numeric_limits<T>::quiet_NaN();
  Softmax(nan.data(), 20);
  for (const T w : nan) ASSERT_TRUE(std::isnan(w));
  Softmax(nan.data(), 0);
}

TEST_P(RowsTest, SoftmaxEdges) {
  CheckSoftmaxEdges<float>();
  CheckSoftmaxEdges<double>();
}

}  // namespace
}  // namespace qkv::simd
