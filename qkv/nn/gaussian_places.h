// Scores of AttentionKind::kGaussian as products of places.
#pragma once

#include <cstdint>

#include "qkv/core/tensor.h"

namespace qkv::nn {

/// Scores −‖p_i − p_j‖² / 2h² as products q_i·k_j, for `prefix` tokens without a position, then the grid row by row.
/// places: [2, H, prefix + grid_height·grid_width, kGaussianFeatures]; bandwidth: h of each head, [H].
template <typename T>
void GaussianPlaces(View<const T> bandwidth, int64_t prefix, int64_t grid_height, int64_t grid_width, View<T> places);

}  // namespace qkv::nn
