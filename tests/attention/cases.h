// Random inputs for attention in any layout, and the check against the double-precision oracle.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <type_traits>

#include "qkv/attention/attention.h"
#include "tests/support/sampler.h"
#include "tests/support/tolerance.h"

namespace qkv::attention {

struct Sizes {
  int64_t B = 1, H = 1, H_kv = 1, N_q = 1, N_k = 1, E = 1, E_v = 1;
};

inline std::string ToString(const Sizes& s) {
  return fmt::format("B {} H {}/{} N {}x{} E {}/{}", s.B, s.H, s.H_kv, s.N_q, s.N_k, s.E, s.E_v);
}

/// q, k, v in T and, the same numbers, in double.
template <typename T>
struct Case {
  explicit Case(const Sizes& sizes, uint64_t seed = 1) : s(sizes) {
    Sampler sampler(seed);
    q = sampler.Normal<T>({s.B, s.H, s.N_q, s.E}), k = sampler.Normal<T>({s.B, s.H_kv, s.N_k, s.E});
    v = sampler.Normal<T>({s.B, s.H_kv, s.N_k, s.E_v});
  }
  Sizes s;
  Tensor<T> q, k, v;
};

/// The greatest Euclidean norm among the vectors of `width` entries that x is made of.
template <typename T>
double GreatestNorm(const Tensor<T>& x, int64_t width) {
  double greatest = 0;
  for (int64_t i = 0; i < x.size(); i += width) {
    double sum = 0;
    for (int64_t e = 0; e < width; ++e) sum += static_cast<double>(x[i + e]) * x[i + e];
    greatest = std::max(greatest, sum);
  }
  return std::sqrt(greatest);
}

/// The options in double.
template <typename T>
struct WideOptions {
  explicit WideOptions(const Options<T>& o) {
    options.scale = o.scale, options.causal = o.causal, options.soft_cap = o.soft_cap, options.mask = o.mask;
    options.dropout = o.dropout, options.seed = o.seed;
    options.key_lengths = o.key_lengths, options.window_left = o.window_left, options.window_right = o.window_right;
    options.first_position = o.first_position;
    if (!o.sinks.empty()) {
      sinks = Tensor<double>(o.sinks.shape());
      for (int64_t h = 0; h < sinks.size(); ++h) sinks[h] = *o.sinks.at(h);
      options.sinks = sinks.view();
    }
    if (o.bias.empty()) return;
    const Shape& shape = o.bias.shape();
    bias = Tensor<double>(shape);
    int64_t i = 0;
    for (int64_t b = 0; b < shape[0]; ++b) {
      for (int64_t h = 0; h < shape[1]; ++h) {
        for (int64_t r = 0; r < shape[2]; ++r) {
          for (int64_t j = 0; j < shape[3]; ++j) bias[i++] = *o.bias.at(b, h, r, j);
        }
      }
    }
    options.bias = bias.view();
  }
  Options<double> options;
  Tensor<double> bias, sinks;
};

/// The greatest error that is to be expected of an output: scores are off by their dot product's error, which scales
/// the weights, and the weighted sum of values is one more dot product. `sharpness` is the greatest |score| term that
/// is not the product (a bias, a soft cap).
template <typename T>
double Tolerance(const Case<T>& c, const Options<T>& options, double sharpness = 0) {
  double q = 0, k = 0, v = 0;
  const auto norm = [](const Tensor<T>& x, int64_t width, double& greatest) {
    for (int64_t i = 0; i < x.size(); i += width) {
      double sum = 0;
      for (int64_t e = 0; e < width; ++e) sum += static_cast<double>(x[i + e]) * x[i + e];
      greatest = std::max(greatest, std::sqrt(sum));
    }
  };
  norm(c.q, c.s.E, q), norm(c.k, c.s.E, k);
  for (int64_t i = 0; i < c.v.size(); ++i) v = std::max(v, std::abs(static_cast<double>(c.v[i])));
  const double scale = options.scale != 0 ? std::abs(options.scale) : 1 / std::sqrt(static_cast<double>(c.s.E));
  // |q||k| bounds Σ|q k|, by Cauchy and Schwarz.
  const double score_error =
      DotTolerance<T>(c.s.E, q * k * scale) + 8 * UnitRoundoff<T>() * (q * k * scale + sharpness);
  return v * (2 * score_error + DotTolerance<T>(c.s.N_k, 1) + 8 * UnitRoundoff<T>());
}

/// Runs the fused call and compares every output with the oracle.
template <typename T>
void CheckAgainstReference(const Case<T>& c, const Options<T>& options, double sharpness = 0) {
  const auto q = Cast<double>(c.q), k = Cast<double>(c.k), v = Cast<double>(c.v);
  auto exact = Tensor<double>({c.s.B, c.s.H, c.s.N_q, c.s.E_v});
  const WideOptions<T> wide(options);
  ReferenceAttention(q, k, v, wide.options, exact);
  auto out = Tensor<T>({c.s.B, c.s.H, c.s.N_q, c.s.E_v});
  for (T& x : out.span()) x = 77;
  Arena arena;
  Attention<T>(c.q, c.k, c.v, options, out, arena);
  const double tolerance = Tolerance(c, options, sharpness);
  for (int64_t i = 0; i < out.size(); ++i) {
    ASSERT_NEAR(out[i], exact[i], tolerance)
        << ToString(c.s) << (std::is_same_v<T, double> ? " double" : " float") << " at " << i;
  }
}

/// A random mask that leaves about `share` of the keys, in a shape that broadcasts.
inline Tensor<bool> RandomMask(const Shape& shape, double share, uint64_t seed) {
  Rng rng(seed);
  Tensor<bool> mask(shape);
  for (bool& allowed : mask.span()) allowed = rng.Uniform() < share;
  return mask;
}

}  // namespace qkv::attention
