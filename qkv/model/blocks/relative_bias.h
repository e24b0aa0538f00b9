// Biases of attention scores by relative position (BEiT; Bao et al. 2022): tables resampled to another grid, and
// expanded to all pairs of tokens. Not here: their sum with the scores (attention/attention.h).
#pragma once

#include "qkv/core/tensor.h"
#include "qkv/model/config/vit_config.h"

namespace qkv::model {

// The table of a head, [R] with R = (2h − 1)(2w − 1) + 3 on a grid of h x w patches: biases of a patch's row i, column
// j and a key y rows below and x columns to the right, at (y + h − 1)(2w − 1) + x + w − 1; then those of the class
// token to a patch, of a patch to the class token, and of the class token to itself. Files have the same in the
// opposite order of the first R − 3, so that the biases of one query and one row of keys are no slice.

/// Reorders a table of a file, [R, H], and adds it to `to`: [H, R], dense.
template <typename T>
void AddRelativeBiases(View<const T> stored, View<T> to);

/// Tables of another grid, as the family's library computes them. from: [tables, H, R], of the grid from_h x from_w;
/// to: [tables, H, R'], both dense. Computed in double.
template <typename T>
void ResampleRelativeBiases(View<const T> from, int64_t from_height, int64_t from_width,
                            BiasInterpolation interpolation, int64_t to_height, int64_t to_width, View<T> to);

/// Biases of the first `rows` of N = 1 + height · width queries and all keys. table: [H, R]; to: [1, H, rows, N], whose
/// last axis is dense.
template <typename T>
void ExpandRelativeBiases(View<const T> table, int64_t height, int64_t width, View<T> to);

}  // namespace qkv::model
