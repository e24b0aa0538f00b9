// Gradients of attention, and the check against the double-precision oracle.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <type_traits>

#include "tests/attention/cases.h"

namespace qkv::attention {

template <typename T>
struct Gradients {
  Gradients(const Case<T>& c, const Options<T>& options)
      : dq(c.q.shape()),
        dk(c.k.shape()),
        dv(c.v.shape()),
        dbias(options.bias.empty() ? Shape{0} : options.bias.shape()),
        dsinks({options.sinks.empty() ? 0 : c.s.H}) {
    for (Tensor<T>* x : {&dq, &dk, &dv, &dbias, &dsinks}) {
      for (T& value : x->span()) value = 77;
    }
  }
  Tensor<T> dq, dk, dv, dbias, dsinks;
};

// Forward and backward.
template <typename T>
Gradients<T> Differentiate(const Case<T>& c, const Options<T>& options, View<const T> dout) {
  Gradients<T> result(c, options);
  Tensor<T> out({c.s.B, c.s.H, c.s.N_q, c.s.E_v}), lse({c.s.B, c.s.H, c.s.N_q});
  Arena arena;
  Attention<T>(c.q, c.k, c.v, options, out, arena, lse);
  BackwardTensors<T> x{c.q, c.k, c.v, out, lse, dout, result.dq, result.dk, result.dv};
  if (!options.bias.empty()) x.dbias = result.dbias;
  if (!options.sinks.empty()) x.dsinks = result.dsinks;
  AttentionBackward(x, options, arena);
  return result;
}

inline Gradients<double> Exact(const Case<double>& c, const Options<double>& options, View<const double> dout) {
  Gradients<double> result(c, options);
  BackwardTensors<double> x{c.q, c.k, c.v, {}, {}, dout, result.dq, result.dk, result.dv};
  if (!options.bias.empty()) x.dbias = result.dbias;
  if (!options.sinks.empty()) x.dsinks = result.dsinks;
  ReferenceAttentionBackward(x, options);
  return result;
}

// Greatest errors to be expected. A weight is off by the error of its score and of the log-sum-exp, relatively; dP and
// delta are dot products of E_v terms; then come sums over keys (dq) or over queries (dk, dv).
template <typename T>
struct Bounds {
  Bounds(const Case<T>& c, const Options<T>& options, const Tensor<T>& dout, double sharpness) {
    const double q = GreatestNorm(c.q, c.s.E), k = GreatestNorm(c.k, c.s.E), v = GreatestNorm(c.v, c.s.E_v),
                 g = GreatestNorm(dout, c.s.E_v), u = UnitRoundoff<T>();
    const double scale = options.scale != 0 ? std::abs(options.scale) : 1 / std::sqrt(static_cast<double>(c.s.E));
    const double score = q * k * scale + sharpness;
    const double N = static_cast<double>(c.s.N_q * c.s.H / c.s.H_kv);
    // The score's product; the score and the log-sum-exp (≤ score + log N_k), rounded, and the exponential.
    const double weight =
        DotTolerance<T>(c.s.E, q * k * scale) + 16 * u * (1 + 2 * score + std::log(static_cast<double>(c.s.N_k)));
    // |dP − delta| ≤ 2 g v, and `out` in delta is itself off by a weighted sum.
    const double kept = 1 / (1 - static_cast<double>(options.dropout));
    const double dscore = kept * (2 * g * v * weight + 2 * DotTolerance<T>(c.s.E_v, g * v) +
                                  g * v * (2 * weight + DotTolerance<T>(c.s.N_k, 1)) + 8 * u * g * v);
    // Σ_j weights = 1: what each key adds is weighted by its own weight.
    dq = scale * k * (dscore + DotTolerance<T>(c.s.N_k, 2 * kept * g * v));
    // A key's weights over all queries sum to N at most, and to far less at random.
    dv = kept * (N * g * weight + DotTolerance<T>(c.s.N_q, N * g));
    dk = N * scale * q * dscore + DotTolerance<T>(c.s.N_q, 2 * kept * N * scale * q * g * v);
    dbias = static_cast<double>(c.s.B * c.s.H * c.s.N_q) * dscore;
    dsinks = static_cast<double>(c.s.B * c.s.N_q) * dscore;
  }
  double dq, dk, dv, dbias, dsinks;
};

template <typename T>
void ExpectNear(const Tensor<T>& got, const Tensor<double>& exact, double bound, const char* name) {
  for (int64_t i = 0; i < got.size(); ++i) {
    ASSERT_NEAR(got[i], exact[i], bound) << name << (std::is_same_v<T, double> ? " double" : " float") << " at " << i;
  }
}

template <typename T>
void CheckGradient(const Case<T>& c, const Options<T>& options = {}, double sharpness = 0) {
  const auto dout = Sampler(99).Normal<T>({c.s.B, c.s.H, c.s.N_q, c.s.E_v});
  const auto got = Differentiate<T>(c, options, dout);
  Case<double> wide_case(c.s);
  wide_case.q = Cast<double>(c.q), wide_case.k = Cast<double>(c.k), wide_case.v = Cast<double>(c.v);
  const WideOptions<T> wide(options);
  const auto exact = Exact(wide_case, wide.options, Cast<double>(dout));
  const Bounds<T> bounds(c, options, dout, sharpness);
  SCOPED_TRACE(ToString(c.s));
  ExpectNear(got.dq, exact.dq, bounds.dq, "dq");
  ExpectNear(got.dk, exact.dk, bounds.dk, "dk");
  ExpectNear(got.dv, exact.dv, bounds.dv, "dv");
  ExpectNear(got.dbias, exact.dbias, bounds.dbias, "dbias");
  ExpectNear(got.dsinks, exact.dsinks, bounds.dsinks, "dsinks");
}

}  // namespace qkv::attention
