// Fuses several attention heads into one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "qkv/core/tensor.h"

namespace qkv::inspect {

/// Columns of a row that a task of a parallel loop fuses.
inline constexpr int64_t kColumnsPerTask = 512;

enum class Fusion { kMean, kMax, kMin };

/// Fuses row `row` of the given heads of weights [1, H, rows, N] into columns [begin, end) of `to`.
template <typename T>
void FuseHeads(View<const T> weights, std::span<const int64_t> heads, Fusion fusion, int64_t row, int64_t begin,
               int64_t end, T* to) {
  std::copy(weights.at(0, heads[0], row) + begin, weights.at(0, heads[0], row) + end, to + begin);
  for (const int64_t head : heads.subspan(1)) {
    const T* from = weights.at(0, head, row);
    switch (fusion) {
      case Fusion::kMean:
        for (int64_t k = begin; k < end; ++k) to[k] += from[k];
        break;
      case Fusion::kMax:
        for (int64_t k = begin; k < end; ++k) to[k] = std::max(to[k], from[k]);
        break;
      case Fusion::kMin:
        for (int64_t k = begin; k < end; ++k) to[k] = std::min(to[k], from[k]);
        break;
    }
  }
  if (fusion != Fusion::kMean) return;
  for (int64_t k = begin; k < end; ++k) to[k] /= static_cast<T>(heads.size());
}

}  // namespace qkv::inspect
