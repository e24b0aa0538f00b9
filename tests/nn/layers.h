// Layers with random weights in both precisions, and naive layers on plain numbers to compare them with.
#pragma once

#include <cmath>
#include <vector>

#include "qkv/nn/block.h"
#include "qkv/nn/patch_embed.h"
#include "qkv/nn/pool.h"
#include "qkv/simd/rows/reference.h"
#include "tests/support/sampler.h"

namespace qkv::nn {

using Matrix = std::vector<double>;  // row-major

inline Matrix Plain(View<const double> x) {
  Matrix plain;
  for (int64_t r = 0; r < x.dim(0); ++r) plain.insert(plain.end(), x.row(r), x.row(r) + x.dim(1));
  return plain;
}

/// A linear layer and the numbers that it was made of.
struct NamedLinear {
  int64_t outputs, inputs;
  Tensor<double> weight, bias;  // [outputs, inputs], [outputs] or empty

  NamedLinear(Sampler& sampler, int64_t out, int64_t in, bool with_bias = true)
      : outputs(out), inputs(in), weight(sampler.Normal<double>({out, in}, 0, 1 / std::sqrt(in))) {
    if (with_bias) bias = sampler.Normal<double>({out}, 0, 0.3);
  }
  template <typename T>
  Linear<T> As(simd::Gate gate = simd::Gate::kNone) const {
    const Tensor<T> cast = Cast<T>(weight);
    return {simd::PackedMatrix<T>(cast, gate), bias.empty() ? Tensor<T>() : Cast<T>(bias)};
  }
  Matrix operator()(const Matrix& x) const {
    const auto rows = static_cast<int64_t>(x.size()) / inputs;
    Matrix y(static_cast<size_t>(rows * outputs));
    simd::reference::MatMul(x.data(), weight.data(), rows, outputs, inputs, y.data());
    for (size_t i = 0; i < y.size() && !bias.empty(); ++i) y[i] += bias[static_cast<int64_t>(i) % outputs];
    return y;
  }
};

struct NamedNorm {
  Tensor<double> gamma, beta;
  double eps = 1e-6;

  NamedNorm(Sampler& sampler, int64_t D)
      : gamma(sampler.Normal<double>({D}, 1, 0.2)), beta(sampler.Normal<double>({D})) {}
  template <typename T>
  Norm<T> As() const {
    return {Cast<T>(gamma), Cast<T>(beta), static_cast<T>(eps)};
  }
  Matrix operator()(const Matrix& x) const {
    Matrix y(x.size());
    const int64_t D = gamma.size();
    simd::reference::NormRows(x.data(), static_cast<int64_t>(x.size()) / D, D, gamma.data(), beta.data(), eps,
                              y.data());
    return y;
  }
};

/// Greatest difference, relative to the greatest entry of `expected`.
template <typename T>
double RelativeError(View<const T> got, const Matrix& expected) {
  double difference = 0, greatest = 1e-300;
  size_t i = 0;
  for (int64_t r = 0; r < got.dim(0); ++r) {
    for (int64_t d = 0; d < got.dim(1); ++d, ++i) {
      difference = std::max(difference, std::abs(static_cast<double>(*got.at(r, d)) - expected[i]));
      greatest = std::max(greatest, std::abs(expected[i]));
    }
  }
  return i == expected.size() ? difference / greatest : INFINITY;
}

/// A layer is a chain of a few products of up to some hundred terms on numbers of order one: well-conditioned, so that
/// its error is some tens of roundings of the greatest entry.
template <typename T>
constexpr double LayerTolerance() {
  return 32 * std::numeric_limits<T>::epsilon();
}

}  // namespace qkv::nn
