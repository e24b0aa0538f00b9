#include "qkv/simd/rows/reference.h"

#include <cmath>
#include <limits>
#include <numbers>

namespace qkv::simd::reference {

double Activate(Activation activation, double x) {
  switch (activation) {
    case Activation::kNone:
      return x;
    case Activation::kGelu:
      // erfc is accurate where 1 + erf cancels.
      return 0.5 * x * std::erfc(-x / std::numbers::sqrt2);
    case Activation::kGeluTanh:
      return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
    case Activation::kQuickGelu:
      return x / (1 + std::exp(-1.702 * x));
    case Activation::kRelu:
      return x > 0 ? x : (x <= 0 ? 0 : x);  // NaN stays NaN
    case Activation::kSilu:
      return x / (1 + std::exp(-x));
    case Activation::kTanh:
      return std::tanh(x);
  }
  return x;
}

double ActivationSlope(Activation activation, double x) {
  const auto logistic = [](double t) { return 1 / (1 + std::exp(-t)); };
  switch (activation) {
    case Activation::kNone:
      return 1;
    case Activation::kGelu:
      return 0.5 * std::erfc(-x / std::numbers::sqrt2) +
             x * std::exp(-0.5 * x * x) * std::numbers::inv_sqrtpi / std::numbers::sqrt2;
    case Activation::kGeluTanh: {
      const double factor = std::sqrt(2 / std::numbers::pi), tanh = std::tanh(factor * (x + 0.044715 * x * x * x));
      return 0.5 * (1 + tanh) + 0.5 * x * (1 - tanh * tanh) * factor * (1 + 3 * 0.044715 * x * x);
    }
    case Activation::kQuickGelu:
      return logistic(1.702 * x) + 1.702 * x * logistic(1.702 * x) * logistic(-1.702 * x);
    case Activation::kRelu:
      return x <= 0 ? 0 : 1;
    case Activation::kSilu:
      return logistic(x) + x * logistic(x) * logistic(-x);
    case Activation::kTanh:
      return 1 - std::tanh(x) * std::tanh(x);
  }
  return 1;
}

void MatMul(const double* x, const double* w, int64_t M, int64_t N, int64_t K, double* y, double* magnitude) {
  for (int64_t m = 0; m < M; ++m) {
    for (int64_t n = 0; n < N; ++n) {
      double sum = 0, sum_of_magnitudes = 0;
      for (int64_t k = 0; k < K; ++k) {
        sum += x[m * K + k] * w[n * K + k];
        sum_of_magnitudes += std::abs(x[m * K + k] * w[n * K + k]);
      }
      y[m * N + n] = sum;
      if (magnitude) magnitude[m * N + n] = sum_of_magnitudes;
    }
  }
}

void NormRows(const double* x, int64_t rows, int64_t D, const double* gamma, const double* beta,
              const NormRule<double>& rule, double* y) {
  for (int64_t r = 0; r < rows; ++r) {
    long double mean = 0, variance = 0;  // so that it is also the oracle of the double version
    for (int64_t d = 0; rule.kind == NormKind::kLayer && d < D; ++d) mean += static_cast<long double>(x[r * D + d]) / D;
    for (int64_t d = 0; d < D; ++d) variance += (x[r * D + d] - mean) * (x[r * D + d] - mean) / D;
    for (int64_t d = 0; d < D; ++d) {
      y[r * D + d] = static_cast<double>(
          (x[r * D + d] - mean) / std::sqrt(variance + rule.eps) * (gamma ? gamma[d] : 1) + (beta ? beta[d] : 0));
    }
  }
}

void Softmax(double* x, int64_t n) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  double max = -kInfinity;
  for (int64_t i = 0; i < n; ++i) max = std::fmax(max, x[i]);
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) {
    if (std::isnan(x[i])) {
      sum = x[i];
      continue;
    }
    if (max == -kInfinity) {
      x[i] = 0;
    } else if (max == kInfinity) {
      x[i] = x[i] == kInfinity ? 1 : 0;
    } else {
      x[i] = std::exp(x[i] - max);
    }
    sum += x[i];
  }
  if (sum == 0) return;
  for (int64_t i = 0; i < n; ++i) x[i] /= sum;
}

}  // namespace qkv::simd::reference
