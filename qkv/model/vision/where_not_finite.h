// Finds the block where NaN and infinity begin; the pass for that runs only on failure.
#pragma once

#include <string>

#include "qkv/core/tensor.h"
#include "qkv/model/blocks/finite.h"
#include "qkv/model/vision/vit.h"

namespace qkv::model {

/// Where an image, pixels [1, channels, height, width], first gives NaN or infinity, such as "block 3 of 0 to 11", or
/// the part before or after the blocks. Runs one pass per block.
std::string WhereNotFinite(const Vit<float>& vit, View<const float> pixels);

/// Throws AnswerError that names the input (`name`) and the place if `values`, the output for `pixels` (both of one
/// image, [1, …]), contain NaN or infinity.
void RequireFinite(const Vit<float>& vit, View<const float> pixels, View<const float> values, std::string_view name);

}  // namespace qkv::model
