// The flat buffer as the layers' parameters: which tensors of the table belong to which layer.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "qkv/model/sequence_config.h"
#include "qkv/nn/block_gradient.h"
#include "qkv/nn/patch_embed_gradient.h"
#include "qkv/nn/pool_gradient.h"
#include "qkv/train/parameters.h"

namespace qkv::train {

/// From pixels, or token ids, to the tokens that enter the first block.
template <typename T>
struct EmbeddingParameters {
  View<T> tokens;     // of each id, [V, D], or empty
  View<T> prefix[3];  // class, distillation and register tokens, [1, n, D], or empty
  View<T> positions;  // [1, position_prefix + patches, D], or empty
  nn::PatchEmbedParameters<T> patch_embed;
  nn::NormParameters<T> norm_pre;
};

/// From the tokens that leave the last block to logits.
template <typename T>
struct AnswerParameters {
  nn::NormParameters<T> norm;
  nn::AttentionPoolParameters<T> pool;
  nn::LinearParameters<T> pooler;
  nn::NormParameters<T> fc_norm, head_norm;
  nn::LinearParameters<T> head, head_dist;
};

/// Layers from the front to the back are embedding, blocks, answer; so is the buffer's order. Allocates nothing after
/// its construction.
class NetworkParameters {
 public:
  /// Throws Error when the configuration contradicts itself.
  explicit NetworkParameters(const model::VitConfig& config);
  explicit NetworkParameters(const model::SequenceConfig& config);

  const ParameterLayout& layout() const { return layout_; }
  int64_t depth() const { return static_cast<int64_t>(prefixes_.size()) - 2; }

  /// buffer: [P], weights (T const) or gradients.
  template <typename T>
  EmbeddingParameters<T> Embedding(View<T> buffer) const;
  template <typename T>
  nn::BlockParameters<T> Block(int64_t block, View<T> buffer) const;
  template <typename T>
  AnswerParameters<T> Answer(View<T> buffer) const;

  /// Where each begins in the buffer, in elements: embedding (0), blocks (1 to depth), answer (depth + 1), and the end.
  int64_t begin(int64_t part) const;

 private:
  NetworkParameters(ParameterLayout layout, int64_t depth);

  ParameterLayout layout_;
  std::vector<std::string> prefixes_;  // of the names of each part's tensors
  std::vector<size_t> first_slots_;    // of each part, and their number
};

}  // namespace qkv::train
