// Row-wise hot loops on raw pointers: activations, LayerNorm and RMSNorm, softmax.
// Each dispatches on ActiveIsa() for float; most double versions are plain loops with the same formulas. All run on the
// calling thread; ParallelFor distributes rows. A value does not depend on its position in the array.
#pragma once

#include <cstdint>

namespace qkv::simd {

enum class Activation { kNone, kGelu, kGeluTanh, kQuickGelu, kRelu, kSilu, kTanh };

/// y[i] = activation(x[i]); y may be x.
/// kGelu: x Φ(x) with erf; kGeluTanh: Hendrycks and Gimpel 2016; kQuickGelu: x σ(1.702 x).
template <typename T>
void Activate(Activation activation, const T* x, T* y, int64_t n);

/// kLayer: (x − mean) / sqrt(var + eps), Ba, Kiros, Hinton 2016. kRms: x / sqrt(mean of x² + eps), Zhang and Sennrich
/// 2019; the same formula with a mean of 0.
enum class NormKind { kLayer, kRms };

template <typename T>
struct NormRule {
  NormRule(T eps_of_norm, NormKind kind_of_norm = NormKind::kLayer) : eps(eps_of_norm), kind(kind_of_norm) {}

  T eps;
  NormKind kind;
};

/// y = norm(x) · gamma + beta, over rows of D.
/// The variance is computed in a second pass over the centred row; if its sum overflows T, the whole row becomes NaN.
/// x_stride, y_stride: elements from row to row; y may be x. gamma or beta may be null (1 and 0).
template <typename T>
void NormRows(const T* x, int64_t x_stride, int64_t rows, int64_t D, const T* gamma, const T* beta,
              const NormRule<T>& rule, T* y, int64_t y_stride);

/// Mean (0 for kRms) and reciprocal standard deviation of each row of D: moments[2·r] = mean, moments[2·r + 1] =
/// 1 / sqrt(var + eps), NaN if the variance overflows T.
template <typename T>
void RowMoments(const T* x, int64_t x_stride, int64_t rows, int64_t D, const NormRule<T>& rule, T* moments);

/// y = (x − mean) · rstd · gamma + beta with moments of RowMoments: the same bits as NormRows.
template <typename T>
void Normalise(const T* x, int64_t x_stride, int64_t rows, int64_t D, const T* moments, const T* gamma, const T* beta,
               T* y, int64_t y_stride);

/// x = softmax(x) in place over n entries. If all entries are −infinity: zeros. Entries of +infinity share the weight
/// equally; NaN propagates.
template <typename T>
void Softmax(T* x, int64_t n);

}  // namespace qkv::simd
