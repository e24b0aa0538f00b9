// Builds blocks and their attention layers of any kind from a checkpoint's tensors, with the savings of BuildOptions.
#pragma once

#include <string>

#include "qkv/model/blocks/affine.h"
#include "qkv/model/blocks/options.h"
#include "qkv/nn/block.h"

namespace qkv::model {

/// tokens: at the trained size. name: prefix of the tensor names, such as "blocks.0.attn.". `norm` and `scale`, before
/// and after the layer, are emptied if they are folded into it.
template <typename T>
nn::AttentionLayer<T> BuildAttention(const nn::BlockConfig& config, int64_t tokens, const BuildOptions& options,
                                     const Weights<T>& weights, const std::string& name, const AttentionBuild& build,
                                     nn::Norm<T>* norm, Tensor<T>* scale);

/// The whole block. name: its prefix, such as "blocks.0.".
template <typename T>
nn::Block<T> BuildBlock(const nn::BlockConfig& config, int64_t tokens, const BuildOptions& options,
                        const Weights<T>& weights, const std::string& name, const AttentionBuild& build);

}  // namespace qkv::model
