// Similarity of patches by their features: principal components as colours, and cosines.
#pragma once

#include <cstdint>
#include <span>

#include "qkv/core/tensor.h"

namespace qkv::explore {

/// The first three principal components of rows of features as red, green and blue.
struct FeatureColours {
  Tensor<uint8_t> colours;  // [R, 3]
  Tensor<float> shares;     // [3]: of the rows' variance
};

/// rows: [R, D]. Each component is centred, has the sign that makes its sum of cubes positive, and is scaled from its
/// 2nd to its 98th percentile, clamped. Missing components are 0, in the middle of the scale.
FeatureColours ColoursOf(View<const float> rows);

/// The cosine of two vectors of one length; 0 if one has no direction.
float Cosine(std::span<const float> a, std::span<const float> b);

/// Cosines of all rows with each other, [R, R]; 0 for a row without a direction.
Tensor<float> Cosines(View<const float> rows);

}  // namespace qkv::explore
