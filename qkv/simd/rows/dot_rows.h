// Dot products of many rows with a few queries in one pass over the rows, for search by similarity.
#pragma once

#include <cstdint>

#include "qkv/core/tensor.h"

namespace qkv::simd {

/// dots[q, r] = Σ_d rows[r, d] · queries[q, d], and squares[r] = Σ_d rows[r, d]². rows: [R, D], queries: [Q, D], dots:
/// [Q, R]; columns are dense, Q >= 1. Each row is read from memory once. A sum depends on its two operands alone, not
/// on R, Q or the place of the row: equal rows have equal results to the bit. NaN and infinity propagate.
void DotRows(View<const float> rows, View<const float> queries, View<float> dots, float* squares);

}  // namespace qkv::simd
