// Finds NaN and infinity in outputs.
#pragma once

#include <cstdint>

#include "qkv/core/error.h"
#include "qkv/core/tensor.h"

namespace qkv::model {

/// A model's answer is useless: it holds NaN or infinity. The weights or their precision are at fault, not the request.
class AnswerError : public Error {
 public:
  using Error::Error;
};

/// True if all n values are finite.
bool AllFinite(const float* x, int64_t n);

/// values: [B, …] of B images, dense. The index of the first image with NaN or infinity; −1 if there is none.
int64_t FirstNotFinite(View<const float> values);

}  // namespace qkv::model
