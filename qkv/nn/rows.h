// Batches of matrices as one matrix where the memory allows it, matrix by matrix where it does not.
#pragma once

#include "qkv/core/tensor.h"

namespace qkv::nn {

/// True when the rows of [B, N, D] are equally far apart: batches without a gap, or one row (or entry) only.
template <typename T>
bool IsOneMatrix(View<T> x) {
  return x.empty() || x.dim(0) == 1 || x.dim(1) == 1 || x.stride(0) == x.dim(1) * x.stride(1);
}

/// [B, N, D] as [B·N, D].
template <typename T>
View<T> AsOneMatrix(View<T> x) {
  if (x.empty()) return x;
  return View<T>(x.data(), {x.dim(0) * x.dim(1), x.dim(2)}, {x.stride(x.dim(1) == 1 ? 0 : 1), x.stride(2)});
}

/// Calls f(x, y, z) with matrices [rows, features]: once with all rows when all three are contiguous over the batch,
/// otherwise once for each batch entry. z may be empty.
template <typename T, typename F>
void ForEachMatrix(View<const T> x, View<T> y, View<const T> z, F&& f) {
  if (IsOneMatrix(x) && IsOneMatrix(y) && IsOneMatrix(z)) return f(AsOneMatrix(x), AsOneMatrix(y), AsOneMatrix(z));
  for (int64_t b = 0; b < x.dim(0); ++b) f(x[b], y[b], z.empty() ? z : z[b]);
}

template <typename T, typename F>
void ForEachMatrix(View<const T> x, View<T> y, F&& f) {
  ForEachMatrix<T>(x, y, {}, [&](auto from, auto to, auto) { f(from, to); });
}

/// out = residual + scale · x, all [B, N, D]; scale [D] may be null, residual may be empty or out.
template <typename T>
void AddScaled(View<const T> x, const Tensor<T>* scale, View<const T> residual, View<T> out) {
  for (int64_t b = 0; b < x.dim(0); ++b) {
    for (int64_t n = 0; n < x.dim(1); ++n) {
      const T* from = x.at(b, n);
      const T* rest = residual.empty() ? nullptr : residual.at(b, n);
      T* to = out.at(b, n);
      for (int64_t d = 0; d < x.dim(2); ++d) {
        to[d] = (rest ? rest[d] : T(0)) + (scale ? (*scale)[d] * from[d] : from[d]);
      }
    }
  }
}

}  // namespace qkv::nn
