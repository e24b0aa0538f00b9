// The loops of an optimiser over flat buffers: AdamW, SGD, the moving average of the weights, sums of gradients.
// Each dispatches on ActiveIsa() for float; the double versions are plain loops with the same formulas. All run on the
// calling thread. A value does not depend on its position in the array.
#pragma once

#include <cstdint>

namespace qkv::simd {

/// The factors of one step of AdamW (Loshchilov and Hutter 2019, algorithm 2). t counts steps from 1.
template <typename T>
struct AdamWFactors {
  T gradient = 1;         // of the gradient, for clipping
  T rate1 = 0;            // 1 − β1
  T beta2 = 0;            // β2
  T rate2 = 0;            // 1 − β2
  T keep = 1;             // 1 − learning rate · weight decay
  T step = 0;             // learning rate / (1 − β1^t)
  T root_correction = 1;  // sqrt(1 − β2^t)
  T eps = 0;
};

/// m += (1 − β1)(g − m);  v = β2 v + (1 − β2) g²;  w = keep · w − step · m / (sqrt(v) / root_correction + eps)
template <typename T>
void AdamW(const AdamWFactors<T>& factors, const T* g, T* m, T* v, T* w, int64_t n);

template <typename T>
struct SgdFactors {
  T gradient = 1;  // of the gradient, for clipping
  T decay = 0;     // weight decay, added to the gradient
  T momentum = 0;
  T learning_rate = 0;
  bool nesterov = false;
};

/// d = g + decay · w;  m = momentum · m + d;  w −= learning_rate · m, or, nesterov, learning_rate · (d + momentum · m)
template <typename T>
void Sgd(const SgdFactors<T>& factors, const T* g, T* m, T* w, int64_t n);

/// average += rate (w − average)
template <typename T>
void UpdateAverage(T rate, const T* w, T* average, int64_t n);

/// sum += x
template <typename T>
void AddTo(const T* x, T* sum, int64_t n);

/// Σ x², summed in double: gradients of many parameters lose digits in float.
template <typename T>
double SumOfSquares(const T* x, int64_t n);

}  // namespace qkv::simd
