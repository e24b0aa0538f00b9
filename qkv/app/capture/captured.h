// What a pass leaves, by name.
#pragma once

#include <map>
#include <string>

#include "qkv/core/tensor.h"

namespace qkv::app {

/// Tensors by the names of `qkv run`: "logits" (without a classifier "pooled", the model's vector of the image),
/// "tokens", "hidden.L", "attention.L"; for a detector "logits" [B, T, classes + 1] and "pred_boxes" [B, T, 4] of its
/// detection tokens; for a model of masks "class_queries_logits" [B, Q, classes + 1] and "masks_queries_logits" [B, Q,
/// height, width] of its query tokens; and activations (activations.h).
using Captured = std::map<std::string, Tensor<float>>;

}  // namespace qkv::app
