// Batches of matrices, treated as one matrix if the memory layout allows it, otherwise matrix by matrix.
#pragma once

#include <algorithm>
#include <optional>

#include "qkv/core/arena.h"
#include "qkv/core/parallel.h"
#include "qkv/core/tensor.h"
#include "qkv/simd/gemm/gemm.h"

namespace qkv::nn {

/// A product of fewer rows does not keep its weights' rows busy.
inline constexpr int64_t kLeastRowsTogether = 256;

/// Input of a layer: rows, and the norm to apply to them, if any, while they are read. Rank 2 or, in batches, 3; in
/// chunks (simd::kRowChunk) one more.
template <typename T>
struct Input {
  Input(View<const T> rows, std::optional<simd::NormRule<T>> norm_of_rows = {}) : x(rows), norm(norm_of_rows) {}
  Input(View<T> rows) : x(rows) {}
  Input(const Tensor<T>& rows) : x(rows) {}

  int64_t dim(int axis) const { return x.dim(axis); }
  Input slice(int axis, int64_t begin, int64_t end) const { return {x.slice(axis, begin, end), norm}; }

  View<const T> x;  // [B, N, D] or [N, D]; in chunks [B, N, D / 64, 64] or [N, D / 64, 64]
  std::optional<simd::NormRule<T>> norm;
};

/// Views [B, H, N, E] as [B, N, H, E], and vice versa.
template <typename T>
View<T> SwapHeadsAndTokens(View<T> x) {
  return View<T>(x.data(), {x.dim(0), x.dim(2), x.dim(1), x.dim(3)},
                 {x.stride(0), x.stride(2), x.stride(1), x.stride(3)});
}

/// New memory [B, heads, N, E], each head dense, in the order [heads, B, N, E]: one product writes the heads of the
/// whole batch, and reads them without a copy if E is simd::kRowChunk.
template <typename T>
View<T> NewHeads(int64_t B, int64_t heads, int64_t N, int64_t E, Arena& arena) {
  return View<T>(arena.New<T>({heads, B, N, E}).data(), {B, heads, N, E}, {N * E, B * N * E, E, 1});
}

/// New memory [B, N, D], or, with `chunks`, [B, N, D / 64, 64]: only for readers that accept chunks.
template <typename T>
View<T> NewRows(int64_t B, int64_t N, int64_t D, bool chunks, Arena& arena) {
  if (!chunks) return arena.New<T>({B, N, D});
  return SwapHeadsAndTokens(NewHeads<T>(B, D / simd::kRowChunk, N, simd::kRowChunk, arena));
}

/// True if consecutive rows of [B, N, …] have a constant stride: no gap between batches, or only one row or entry.
template <typename T>
bool IsOneMatrix(View<T> x) {
  return x.empty() || x.dim(0) == 1 || x.dim(1) == 1 || x.stride(0) == x.dim(1) * x.stride(1);
}
template <typename T>
bool IsOneMatrix(const Input<T>& input) {
  return IsOneMatrix(input.x);
}

/// Views [B, N, D] as [B·N, D] and [B, N, H, E] as [B·N, H, E].
template <typename T>
View<T> AsOneMatrix(View<T> x) {
  if (x.empty()) return x;
  const int64_t rows = x.dim(0) * x.dim(1), stride = x.stride(x.dim(1) == 1 ? 0 : 1);
  if (x.rank() == 4) return View<T>(x.data(), {rows, x.dim(2), x.dim(3)}, {stride, x.stride(2), x.stride(3)});
  return View<T>(x.data(), {rows, x.dim(2)}, {stride, x.stride(2)});
}
template <typename T>
Input<T> AsOneMatrix(const Input<T>& input) {
  return {AsOneMatrix(input.x), input.norm};
}

template <typename T>
View<T> BatchEntry(View<T> x, int64_t b) {
  return x.empty() ? x : x[b];
}
template <typename T>
Input<T> BatchEntry(const Input<T>& input, int64_t b) {
  return {BatchEntry(input.x, b), input.norm};
}

/// Calls f once with all rows if every argument is one matrix, otherwise once for each batch entry of the first. Empty
/// views stay empty.
template <typename F, typename First, typename... Rest>
void ForEachMatrix(F&& f, const First& first, const Rest&... rest) {
  if ((IsOneMatrix(first) && ... && IsOneMatrix(rest))) return f(AsOneMatrix(first), AsOneMatrix(rest)...);
  for (int64_t b = 0; b < first.dim(0); ++b) f(BatchEntry(first, b), BatchEntry(rest, b)...);
}

/// Rows that a layer takes at a time, of `rows` with an intermediate result of `width` elements: all of them up to
/// 32 MiB; otherwise, since that result is used up at once and is not worth so much memory, those of 4 MiB a thread and
/// no more than that.
template <typename T>
int64_t RowsTogether(int64_t rows, int64_t width) {
  constexpr int64_t kWhole = int64_t{32} << 20, kOfThread = int64_t{4} << 20;
  const int64_t bytes = width * static_cast<int64_t>(sizeof(T));
  if (rows * bytes <= kWhole) return rows;
  return std::min(rows, std::max<int64_t>(kLeastRowsTogether, std::min(kWhole, NumThreads() * kOfThread) / bytes));
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
