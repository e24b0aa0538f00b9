// Finds NaN and infinity in outputs, and the block where they begin; the second pass for that runs only on failure.
#pragma once

#include <cstdint>
#include <string>

#include "qkv/core/error.h"
#include "qkv/core/tensor.h"
#include "qkv/model/vit.h"

namespace qkv::model {

/// A model's answer that is no use: it holds NaN or infinity. Its weights or their precision are at fault, not what it
/// was asked.
class AnswerError : public Error {
 public:
  using Error::Error;
};

/// True if all n values are finite.
bool AllFinite(const float* x, int64_t n);

/// values: [B, …] of B images, dense. The index of the first image with NaN or infinity; −1 if there is none.
int64_t FirstNotFinite(View<const float> values);

/// Where an image, pixels [1, channels, height, width], first gives NaN or infinity, such as "block 3 of 0 to 11", or
/// the part before or after the blocks. Runs one pass per block.
std::string WhereNotFinite(const Vit<float>& vit, View<const float> pixels);

/// Throws AnswerError that names the input (`name`) and the place if `values`, the output for `pixels` (both of one
/// image, [1, …]), contain NaN or infinity.
void RequireFinite(const Vit<float>& vit, View<const float> pixels, View<const float> values, std::string_view name);

}  // namespace qkv::model
