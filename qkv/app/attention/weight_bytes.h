// Attention weights as bytes, for pages: a quarter of the size, with more steps where weights are small.
#pragma once

#include <cstdint>

#include "qkv/core/tensor.h"

namespace qkv::app {

/// Quantizes weights [R, N], dense, row by row. scales, [R]: the row's greatest weight; bytes, [R, N]: weight = scale ·
/// (byte/255)². Negative weights become 0.
void WeightBytes(View<const float> weights, uint8_t* bytes, float* scales);

}  // namespace qkv::app
