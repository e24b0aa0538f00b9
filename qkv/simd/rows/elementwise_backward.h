// Gradients of the row-wise loops of elementwise.h, and sums over the rows of a matrix.
// As there: float by the kernels of ActiveIsa(), double by the same formulas; all on the calling thread. A column's sum
// does not depend on neighbouring columns, so a matrix may be split between any two columns.
#pragma once

#include <cstdint>

#include "qkv/simd/rows/elementwise.h"

namespace qkv::simd {

/// dx[i] = dy[i] · activation'(x[i]) and, if y is not null, y[i] = activation(x[i]); dx and y may each be x or dy, but
/// not one another. The slope of kRelu at 0 is 0.
template <typename T>
void ActivateGradient(Activation activation, const T* x, const T* dy, T* dx, int64_t n, T* y = nullptr);

/// y[i] = activation(gate[i]) · value[i], of Shazeer 2020; y may be either.
template <typename T>
void ApplyGate(Activation activation, const T* gate, const T* value, T* y, int64_t n);

/// dgate[i] = dy[i] · value[i] · activation'(gate[i]), dvalue[i] = dy[i] · activation(gate[i]) and, if y is not null,
/// y[i] as in ApplyGate. Outputs may be gate, value or dy, but not one another.
template <typename T>
void GateGradient(Activation activation, const T* gate, const T* value, const T* dy, T* dgate, T* dvalue, int64_t n,
                  T* y = nullptr);

/// Rows of the input of a norm and of the gradient of its output.
template <typename T>
struct NormedRows {
  const T* x;  // [rows, D], rows x_stride apart
  int64_t x_stride;
  const T* moments;  // [rows, 2], output of RowMoments
  const T* dy;       // [rows, D], rows dy_stride apart
  int64_t dy_stride;
  int64_t rows;
  NormKind kind = NormKind::kLayer;
};

/// dx = or += the gradient of a norm by its rows: rstd · (g − mean(g) − x̂ · mean(g · x̂)), for kRms without mean(g),
/// where g = dy · gamma and x̂ = (x − mean) · rstd. gamma may be null (1); dx may be dy or x.
template <typename T>
void NormGradient(const NormedRows<T>& of, int64_t D, const T* gamma, T* dx, int64_t dx_stride, bool add);

/// dgamma += Σ dy · x̂ and dbeta += Σ dy over the rows, for `columns` columns from of.x and of.dy on. Either may be
/// null.
template <typename T>
void AddNormParameterGradients(const NormedRows<T>& of, int64_t columns, T* dgamma, T* dbeta);

/// sum[i] += Σ_r x[r][i], rows x_stride apart.
template <typename T>
void AddRows(const T* x, int64_t x_stride, int64_t rows, int64_t columns, T* sum);

/// sum[i] += factor · Σ_r a[r][i] · b[r][i].
template <typename T>
void AddRowProducts(const T* a, int64_t a_stride, const T* b, int64_t b_stride, int64_t rows, int64_t columns, T factor,
                    T* sum);

/// x[i] = 0 if DropoutHash::Of(row, i) is below `below`, else x[i] · scale. row: well mixed bits.
template <typename T>
void DropEntries(uint64_t row, int32_t below, T scale, T* x, int64_t n);

}  // namespace qkv::simd
