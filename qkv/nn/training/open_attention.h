// Replacements of softmax attention in a forward and backward pass: experiments that look into heads and change their
// scores. Not here: the experiments (explore/open_pass.h).
#pragma once

#include <cstdint>

#include "qkv/core/tensor.h"

namespace qkv::nn {

/// Operands of one layer's attention, any strides with a dense last axis.
struct OpenOperands {
  int64_t block = 0;                    // number of the layer's block
  float scale = 1;                      // of the scores q · k
  View<const float> query, key, value;  // [B, H, N, r], [B, G, N, r], [B, G, N, E]
};

/// Computes the joined heads from a layer's operands, and the gradient. Float only.
class OpenAttention {
 public:
  virtual ~OpenAttention() = default;
  /// Overwrites joined, [B, H, N, E].
  virtual void Forward(const OpenOperands& operands, View<float> joined) = 0;
  /// djoined: [B, H, N, E]. Overwrites the gradients of the operands, dkey and dvalue one for each head of keys.
  virtual void Backward(const OpenOperands& operands, View<const float> djoined, View<float> dquery, View<float> dkey,
                        View<float> dvalue) = 0;
};

}  // namespace qkv::nn
