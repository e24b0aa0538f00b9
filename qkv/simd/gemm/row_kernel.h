// A product of one row with several panels at a time. Weights of one row come from memory, and a processor fetches four
// streams faster than one: measured on AMD EPYC (family 25 model 1, one thread, busy machine), 24.7 GB/s instead
// of 14.9 in float, 21.3 instead of 12.0 in widened bfloat16, 20.5 instead of 14.4 in int8. Prefetching by
// instructions, which tiles of more rows profit from, costs 10 to 20 % here: each takes one of the few places for lines
// under way.
#pragma once

#include <cstdint>

#include "qkv/simd/gemm/tile_kernel.h"

namespace qkv::simd::internal {

/// Panels that are multiplied together.
inline constexpr int kRowPanels = 4;

/// Of so many panels, those that are multiplied next: never one alone if there are more.
constexpr int NextRowPanels(int64_t left) {
  if (left == 5 || left == 6) return 3;
  return left < kRowPanels ? static_cast<int>(left) : kRowPanels;
}

/// TileMultiply for one row and 1 to kRowPanels panels, `distance` bytes apart; c: [panels][panel]. Every element is
/// the same chain as in a tile, so a row's result does not depend on the rows beside it.
using RowMultiply = void (*)(int panels, const void* a, const void* b, int64_t distance, int64_t depth, bool first,
                             void* c);

/// Of a kernel; null if it has none.
RowMultiply FindRowMultiply(const TileKernel& kernel);
/// Of Bf16Widened().
RowMultiply Bf16WidenedRow();
/// Of the kernels of these names.
extern const RowMultiply kInt8Avx2Row, kInt8AvxVnniRow, kInt8Avx512VnniRow, kBf16Avx512Row;

}  // namespace qkv::simd::internal
