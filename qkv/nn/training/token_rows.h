// Tokens of a batch as rows of one matrix, [B·N, C]: copies, sums, and the first tokens of each image.
#pragma once

#include <algorithm>
#include <cstdint>

#include "qkv/core/arena.h"
#include "qkv/core/tensor.h"
#include "qkv/nn/ranges.h"

namespace qkv::nn {

/// to = from, both [R, C] with strided rows.
template <typename T>
void CopyRows(View<const T> from, View<T> to) {
  ForRowRanges(from.dim(0), from.dim(1), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) std::copy_n(from.row(row), from.dim(1), to.row(row));
  });
}

/// to += from, both [R, C] with strided rows.
template <typename T>
void AddRows(View<const T> from, View<T> to) {
  ForRowRanges(from.dim(0), from.dim(1), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const T* x = from.row(row);
      T* y = to.row(row);
      for (int64_t c = 0; c < from.dim(1); ++c) y[c] += x[c];
    }
  });
}

/// The first `rows` tokens of each of B images, [B·rows, C], from [B·N, C].
template <typename T>
View<T> FirstTokens(View<const T> tokens, int64_t B, int64_t rows, Arena& arena) {
  const int64_t N = tokens.dim(0) / B, C = tokens.dim(1);
  const View<T> first = arena.New<T>({B * rows, C});
  for (int64_t b = 0; b < B; ++b) {
    CopyRows<T>(tokens.slice(0, b * N, b * N + rows), first.slice(0, b * rows, (b + 1) * rows));
  }
  return first;
}

/// The inverse: adds [B·rows, C] to the first tokens of each image of [B·N, C].
template <typename T>
void AddToFirstTokens(View<const T> first, int64_t B, View<T> tokens) {
  const int64_t N = tokens.dim(0) / B, rows = first.dim(0) / B, C = first.dim(1);
  ForRowRanges(first.dim(0), C, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const T* from = first.row(row);
      T* to = tokens.row(row / rows * N + row % rows);
      for (int64_t c = 0; c < C; ++c) to[c] += from[c];
    }
  });
}

}  // namespace qkv::nn
