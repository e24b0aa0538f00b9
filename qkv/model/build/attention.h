// Blocks from a checkpoint's tensors, and their attention layers of any kind, with the savings of BuildOptions.
#pragma once

#include <string>

#include "qkv/model/build/affine.h"
#include "qkv/model/vit.h"

namespace qkv::model {

/// tokens: of the trained size. `name` begins the tensors' names, such as "blocks.0.attn.". `norm` and `scale`, before
/// and behind the layer, are emptied where they are folded into it.
template <typename T>
nn::AttentionLayer<T> BuildAttention(const nn::BlockConfig& config, int64_t tokens, const BuildOptions& options,
                                     const Weights<T>& weights, const std::string& name, const AttentionWay& way,
                                     nn::Norm<T>* norm, Tensor<T>* scale);

/// The block around it. `name` is the block's, such as "blocks.0.".
template <typename T>
nn::Block<T> BuildBlock(const nn::BlockConfig& config, int64_t tokens, const BuildOptions& options,
                        const Weights<T>& weights, const std::string& name, const AttentionWay& way);

}  // namespace qkv::model
