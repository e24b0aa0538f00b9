// Row-wise hot loops on raw pointers: activations, LayerNorm, RMSNorm, softmax, sums, conversions.
// Each dispatches on ActiveIsa() for float; most double versions are plain loops with the same formulas. All run on the
// calling thread: share rows out with ParallelFor. A value does not depend on its place in the array.
#pragma once

#include <cstdint>

#include "qkv/core/dtype.h"

namespace qkv::simd {

enum class Activation { kNone, kGelu, kGeluTanh, kQuickGelu, kRelu, kSilu, kTanh };

/// y[i] = activation(x[i]); y may be x.
/// kGelu: x Φ(x) with erf; kGeluTanh: Hendrycks and Gimpel 2016; kQuickGelu: x σ(1.702 x).
template <typename T>
void Activate(Activation activation, const T* x, T* y, int64_t n);

/// y = (x − mean) / sqrt(var + eps) · gamma + beta, over rows of D. Ba, Kiros, Hinton 2016.
/// The variance is computed in a second pass over the centred row. x_stride, y_stride: elements from row to row;
/// y may be x. gamma or beta may be null (1 and 0).
template <typename T>
void LayerNorm(const T* x, int64_t x_stride, int64_t rows, int64_t D, const T* gamma, const T* beta, T eps, T* y,
               int64_t y_stride);

/// y = x / sqrt(mean(x²) + eps) · gamma, over rows of D. Zhang and Sennrich 2019.
template <typename T>
void RmsNorm(const T* x, int64_t x_stride, int64_t rows, int64_t D, const T* gamma, T eps, T* y, int64_t y_stride);

/// x = softmax(x) in place over n entries. All entries −infinity: zeros. Entries of +infinity share the weight
/// equally; NaN spreads.
template <typename T>
void Softmax(T* x, int64_t n);

/// y[i] = silu(gate[i]) · value[i]; y may be either.
template <typename T>
void SwiGlu(const T* gate, const T* value, T* y, int64_t n);

/// y[i] += x[i]
template <typename T>
void Add(const T* x, T* y, int64_t n);

/// Exact widening.
void Widen(const Half* x, float* y, int64_t n);
void Widen(const BFloat16* x, float* y, int64_t n);

}  // namespace qkv::simd
