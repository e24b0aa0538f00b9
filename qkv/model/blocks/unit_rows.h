// Embeddings as vectors of unit length.
#pragma once

#include <cstdint>

#include "qkv/core/tensor.h"

namespace qkv::model {

/// Divides each row of x, [R, D], by its length. Returns the first row that has no direction, because it is zero or
/// holds NaN or infinity; −1 if all have one.
int64_t NormaliseRows(View<float> x);

}  // namespace qkv::model
