// Answers that are no numbers: found by a look at the values, and traced to the block that they come from by a second
// pass, in the failing case alone.
#pragma once

#include <cstdint>
#include <string>

#include "qkv/core/tensor.h"
#include "qkv/model/vit.h"

namespace qkv::model {

/// Whether all are finite.
bool AllFinite(const float* x, int64_t n);

/// Of values [B, …] of B images, dense, the first image with NaN or infinity among its values; −1 where there is none.
int64_t FirstNotFinite(View<const float> values);

/// What the answer of an image, pixels [1, channels, height, width], becomes NaN or infinite in, by a pass that keeps
/// what leaves each block: "block 3 of 0 to 11", or what stands before and behind the blocks.
std::string WhereNotFinite(const Vit<float>& vit, View<const float> pixels);

/// Throws Error that says for which input (`name`) and where when `values`, the model's answer to `pixels` (both of one
/// image, [1, …]), holds NaN or infinity.
void RequireFinite(const Vit<float>& vit, View<const float> pixels, View<const float> values, std::string_view name);

}  // namespace qkv::model
