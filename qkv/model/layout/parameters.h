// The weights of a model as the layers use them, and the only declaration of their tensors: names (timm's), shapes and
// roles, in the order of the forward pass. Visitors derive the table of tensors (tensor_table.h) and the views into
// training's flat buffer (train/network/parameter_views.h) from it.
//
// A visitor has three functions. Tensors that a configuration lacks are not visited.
//   Tensor(name, shape, role, view)
//   Linear(name, outputs, inputs, bias, parameters)    weight [outputs, inputs] and, with `bias`, bias [outputs]
//   Norm(name, width, config, parameters)              gamma and, if it has one, beta [width]
#pragma once

#include <cstdint>
#include <string_view>

#include "qkv/model/config/sequence_config.h"
#include "qkv/model/config/vit_config.h"
#include "qkv/model/layout/tensor_table.h"
#include "qkv/nn/training/block.h"
#include "qkv/nn/training/patch_embed.h"
#include "qkv/nn/training/pool.h"

namespace qkv::model {

/// The two parts of a name. The visitor joins them if needed: training visits at every step and must not allocate.
struct TensorName {
  TensorName(const char* whole) : name(whole) {}
  TensorName(std::string_view layer_prefix, std::string_view name_in_layer)
      : layer(layer_prefix), name(name_in_layer) {}

  std::string_view layer, name;
};

/// From pixels or token ids to the input of the first block.
template <typename T>
struct EmbeddingParameters {
  View<T> tokens;           // [V, D], a row per id, or empty
  View<T> types;            // [types, D], a row per token type, or empty
  View<T> relative;         // [buckets, H], added to scores by relative positions, or empty
  View<T> prefix[5];        // of VitConfig::prefix_tokens, [1, n, D], or empty
  View<T> positions;        // [1, position_prefix + patches, D] or [1, length, D], or empty
  View<T> block_positions;  // [depth − 1, prefix + patches, D], or empty
  View<T> shared_biases;    // of all blocks, by relative position, [relative_bias_rows, H], or empty
  View<T> rotary;           // frequencies of each block and head, [2, depth, H, E / 2], or empty
  nn::PatchEmbedParameters<T> patch_embed;
  nn::NormParameters<T> norm_pre;
};

/// From the output of the last block to logits.
template <typename T>
struct OutputParameters {
  nn::NormParameters<T> norm;
  nn::AttentionPoolParameters<T> pool;
  nn::LinearParameters<T> pooler;
  nn::NormParameters<T> fc_norm;
  nn::LinearParameters<T> projection;
  nn::NormParameters<T> head_norm;
  nn::LinearParameters<T> head, head_dist;
  nn::LinearParameters<T> class_head[3], box_head[3];  // of the detection tokens
  // For the query tokens, and for the patches that make up their masks.
  nn::LinearParameters<T> mask_class, mask_head[3];
  struct Doubling {
    nn::LinearParameters<T> expand;  // a transposed convolution, [D, D, 2, 2], and its bias
    View<T> smooth;                  // of a convolution of each feature, [D, 1, 3, 3]
    nn::NormParameters<T> norm;
  };
  Doubling doublings[kMaxDoublings];
};

template <typename T, typename Visitor>
void VisitEmbedding(const VitConfig& c, EmbeddingParameters<T>& p, Visitor& visit) {
  const int64_t D = c.block.width;
  View<T>* prefix = p.prefix;
  for (const PrefixTokens& tokens : c.prefix_tokens()) {
    if (tokens.count > 0) visit.Tensor(tokens.tensor, {1, tokens.count, D}, Role::kToken, *prefix);
    ++prefix;
  }
  if (c.positions == Positions::kLearned) {
    visit.Tensor("pos_embed", {1, c.position_prefix + c.patches(), D}, Role::kPosition, p.positions);
  }
  if (c.position_blocks() > 0) {
    visit.Tensor("block_pos_embed", {c.position_blocks(), c.tokens(), D}, Role::kPosition, p.block_positions);
  }
  if (c.shared_biases) {
    visit.Tensor("rel_pos_bias.relative_position_bias_table", {c.relative_bias_rows(), c.block.attention.heads},
                 Role::kPosition, p.shared_biases);
  }
  if (c.rotary == PatchRotary::kMixed) {
    visit.Tensor("rope.freqs", {2, c.depth, c.block.attention.heads, c.block.attention.query_width() / 2},
                 Role::kPosition, p.rotary);
  }
  if (c.patch_norms) {
    visit.Norm("patch_embed.norm_in", c.patch_features(), c.block.norm, p.patch_embed.norm_in);
    visit.Linear("patch_embed.proj", D, c.patch_features(), c.patch_bias, p.patch_embed.projection);
    visit.Norm("patch_embed.norm_out", D, c.block.norm, p.patch_embed.norm_out);
  } else {  // shaped as the weights of a convolution
    visit.Tensor("patch_embed.proj.weight", {D, c.channels, c.patch_height, c.patch_width}, Role::kWeight,
                 p.patch_embed.projection.weight);
    if (c.patch_bias) visit.Tensor("patch_embed.proj.bias", {D}, Role::kBias, p.patch_embed.projection.bias);
    if (c.embed_norm) visit.Norm("patch_embed.norm_out", D, c.block.norm, p.patch_embed.norm_out);
  }
  if (c.pre_norm) visit.Norm("norm_pre", D, c.block.norm, p.norm_pre);
}

template <typename T, typename Visitor>
void VisitEmbedding(const SequenceConfig& c, EmbeddingParameters<T>& p, Visitor& visit) {
  const int64_t D = c.block.width;
  visit.Tensor("token_embed.weight", {c.vocabulary, D}, Role::kToken, p.tokens);
  if (c.positions == SequencePositions::kLearned) {
    visit.Tensor("pos_embed", {1, c.position_offset + c.length, D}, Role::kPosition, p.positions);
  }
  if (c.positions == SequencePositions::kRelative) {
    visit.Tensor("rel_bias.weight", {c.relative_buckets, c.block.attention.heads}, Role::kPosition, p.relative);
  }
  if (c.token_types > 0) visit.Tensor("type_embed.weight", {c.token_types, D}, Role::kToken, p.types);
  if (c.embedding_norm) visit.Norm("norm_pre", D, c.block.norm, p.norm_pre);
}

/// Tensors that make scores and values (docs/kinds.md), whose names begin with `layer`: "attn." or "cross_attn.".
/// tokens: N at the trained size, for tables of positions.
template <typename T, typename Visitor>
void VisitQueriesKeysValues(const nn::AttentionConfig& c, std::string_view layer, int64_t D, int64_t tokens,
                            nn::AttentionParameters<T>& p, Visitor& visit) {
  using nn::AttentionKind;
  const int64_t H = c.heads, r = c.query_width(), queries = H * r, keys = c.kv_heads() * r, values = c.values_width();
  const int64_t S = c.source(D);  // differs from D only in cross-attention
  switch (c.kind) {
    case AttentionKind::kSeparate:
    case AttentionKind::kDifferential:
      if (c.of_source) {
        visit.Linear({layer, "q"}, queries, D, c.bias, p.query);
        visit.Linear({layer, "kv"}, keys + values, S, c.bias, p.query_key_value);
      } else {
        visit.Linear({layer, "qkv"}, queries + keys + values, D, c.bias, p.query_key_value);
      }
      return;
    case AttentionKind::kShared:
    case AttentionKind::kUnified:
      visit.Linear({layer, "qk"}, queries, D, c.bias, p.key);
      break;
    case AttentionKind::kSharedKeyValue:
    case AttentionKind::kLowRank:
      visit.Linear({layer, "qk.query"}, queries, D, c.bias, p.query);
      visit.Linear({layer, "qk.key"}, keys, S, c.bias, p.key);
      break;
    case AttentionKind::kMerged:
      visit.Tensor({layer, "qk.merged"}, {H, D, S}, Role::kWeight, p.merged);
      if (c.bias) visit.Tensor({layer, "qk.key_term"}, {H, S}, Role::kBias, p.key_term);
      break;
    case AttentionKind::kSymmetric:
      visit.Linear({layer, "qk"}, queries, D, false, p.key);
      visit.Tensor({layer, "qk.eigenvalues"}, {H, r}, Role::kScale, p.eigenvalues);
      break;
    case AttentionKind::kGaussian:
      visit.Tensor({layer, "qk.bandwidth"}, {H}, Role::kScale, p.bandwidth);
      break;
    case AttentionKind::kPositional:
      visit.Tensor({layer, "qk.query"}, {H, tokens, r}, Role::kPosition, p.query_places);
      visit.Tensor({layer, "qk.key"}, {H, tokens, r}, Role::kPosition, p.key_places);
      break;
  }
  if (!nn::ValuesAreKeys(c.kind)) visit.Linear({layer, "v"}, values, S, c.bias, p.value);
}

/// Visits one attention layer.
template <typename T, typename Visitor>
void VisitAttention(const nn::AttentionConfig& c, const nn::NormConfig& norm, std::string_view layer, int64_t D,
                    int64_t tokens, nn::AttentionParameters<T>& p, Visitor& visit) {
  VisitQueriesKeysValues(c, layer, D, tokens, p, visit);
  if (c.sinks) visit.Tensor({layer, "sinks"}, {c.heads}, Role::kBias, p.sinks);
  if (c.qk_norm) {
    visit.Norm({layer, "q_norm"}, c.score_width(), norm, p.query_norm);
    visit.Norm({layer, "k_norm"}, c.score_width(), norm, p.key_norm);
  }
  if (c.maps() > 1) {
    visit.Tensor({layer, "lambda_q1"}, {c.score_width()}, Role::kScale, p.lambda.query[0]);
    visit.Tensor({layer, "lambda_k1"}, {c.score_width()}, Role::kScale, p.lambda.key[0]);
    visit.Tensor({layer, "lambda_q2"}, {c.score_width()}, Role::kScale, p.lambda.query[1]);
    visit.Tensor({layer, "lambda_k2"}, {c.score_width()}, Role::kScale, p.lambda.key[1]);
    visit.Norm({layer, "sub_norm"}, c.head_width, nn::kHeadNorm, p.head_norm);
  }
  if (c.bias_rows > 0) {
    visit.Tensor({layer, "relative_position_bias_table"}, {c.bias_rows, c.heads}, Role::kPosition, p.bias_table);
  }
  if (c.output_norm) visit.Norm({layer, "norm"}, c.joined_width(), norm, p.output_norm);
  if (c.projection) visit.Linear({layer, "proj"}, D, c.joined_width(), c.projection_bias, p.projection);
}

/// Visits the tensors of one block; their names lack the prefix "blocks.N.".
template <typename T, typename Visitor>
void VisitBlock(const nn::BlockConfig& c, int64_t tokens, nn::BlockParameters<T>& p, Visitor& visit) {
  const int64_t D = c.width, M = c.mlp.width;
  visit.Norm("norm1", D, c.norm, p.norm1);
  VisitAttention(c.attention, c.norm, "attn.", D, tokens, p.attention, visit);
  if (c.layer_scale) visit.Tensor("ls1.gamma", {D}, Role::kScale, p.scale1);
  if (c.cross) {
    visit.Norm("norm_cross", D, c.norm, p.norm_cross);
    VisitAttention(*c.cross, c.norm, "cross_attn.", D, tokens, p.cross, visit);
    if (c.layer_scale) visit.Tensor("ls_cross.gamma", {D}, Role::kScale, p.scale_cross);
  }
  if (c.norm_place != nn::NormPlace::kParallel) visit.Norm("norm2", D, c.norm, p.norm2);
  visit.Linear("mlp.fc1", (c.mlp.gate == simd::Gate::kNone ? 1 : 2) * M, D, c.mlp.bias, p.mlp.fc1);
  if (c.mlp.norm) visit.Norm("mlp.norm", M, c.norm, p.mlp.norm);
  visit.Linear("mlp.fc2", D, M, c.mlp.bias, p.mlp.fc2);
  if (c.layer_scale) visit.Tensor("ls2.gamma", {D}, Role::kScale, p.scale2);
}

/// Norms in the heads of masks, whose eps no configuration changes.
inline constexpr nn::NormConfig kMaskNorm = {.eps = 1e-6};

template <typename T, typename Visitor>
void VisitMaskHead(const VitConfig& c, OutputParameters<T>& p, Visitor& visit) {
  static constexpr std::string_view kDoublings[kMaxDoublings] = {"doubling.0.", "doubling.1.", "doubling.2.",
                                                                 "doubling.3."};
  const int64_t D = c.block.width;
  visit.Linear("mask_class", c.mask_classes + 1, D, true, p.mask_class);
  visit.Linear("mask_head.0", D, D, true, p.mask_head[0]);
  visit.Linear("mask_head.1", D, D, true, p.mask_head[1]);
  visit.Linear("mask_head.2", D, D, true, p.mask_head[2]);
  for (int64_t i = 0; i < c.mask_doublings; ++i) {
    auto& doubling = p.doublings[i];
    visit.Tensor({kDoublings[i], "expand.weight"}, {D, D, 2, 2}, Role::kWeight, doubling.expand.weight);
    visit.Tensor({kDoublings[i], "expand.bias"}, {D}, Role::kBias, doubling.expand.bias);
    visit.Tensor({kDoublings[i], "smooth.weight"}, {D, 1, 3, 3}, Role::kWeight, doubling.smooth);
    visit.Norm({kDoublings[i], "norm"}, D, kMaskNorm, doubling.norm);
  }
}

template <typename T, typename Visitor>
void VisitOutput(const VitConfig& c, OutputParameters<T>& p, Visitor& visit) {
  const int64_t D = c.block.width;
  if (c.final_norm) visit.Norm("norm", D, c.block.norm, p.norm);
  if (c.pool == Pool::kMap) {
    visit.Tensor("attn_pool.latent", {1, 1, D}, Role::kToken, p.pool.latent);
    visit.Linear("attn_pool.q", D, D, true, p.pool.query);
    visit.Linear("attn_pool.kv", 2 * D, D, true, p.pool.key_value);
    visit.Linear("attn_pool.proj", D, D, true, p.pool.projection);
    visit.Norm("attn_pool.norm", D, c.block.norm, p.pool.norm);
    visit.Linear("attn_pool.mlp.fc1", c.map_mlp_width, D, true, p.pool.mlp.fc1);
    visit.Linear("attn_pool.mlp.fc2", D, c.map_mlp_width, true, p.pool.mlp.fc2);
  }
  if (c.pooler_width > 0) visit.Linear("pooler", c.pooler_width, D, true, p.pooler);
  if (c.fc_norm) visit.Norm("fc_norm", D, c.block.norm, p.fc_norm);
  if (c.projection_width > 0) {
    visit.Linear("projection", c.projection_width, c.projection_input(), c.projection_bias, p.projection);
  }
  if (c.head_norm) visit.Norm("head_norm", c.pooled_width(), c.block.norm, p.head_norm);
  if (c.classes > 0) visit.Linear("head", c.classes, c.pooled_width(), true, p.head);
  if (c.distillation_head) visit.Linear("head_dist", c.classes, D, true, p.head_dist);
  if (c.detection_classes > 0) {
    visit.Linear("class_head.0", D, D, true, p.class_head[0]);
    visit.Linear("class_head.1", D, D, true, p.class_head[1]);
    visit.Linear("class_head.2", c.detection_classes + 1, D, true, p.class_head[2]);
    visit.Linear("box_head.0", D, D, true, p.box_head[0]);
    visit.Linear("box_head.1", D, D, true, p.box_head[1]);
    visit.Linear("box_head.2", 4, D, true, p.box_head[2]);
  }
  if (c.mask_classes > 0) VisitMaskHead(c, p, visit);
}

template <typename T, typename Visitor>
void VisitOutput(const SequenceConfig& c, OutputParameters<T>& p, Visitor& visit) {
  if (c.final_norm) visit.Norm("norm", c.block.width, c.block.norm, p.norm);
  if (c.pooler_width > 0) visit.Linear("pooler", c.pooler_width, c.block.width, true, p.pooler);
  if (c.outputs == 0) return;
  if (!c.tied_head) {
    visit.Linear("head", c.outputs, c.block.width, c.head_bias, p.head);
  } else if (c.head_bias) {
    visit.Tensor("head.bias", {c.outputs}, Role::kBias, p.head.bias);
  }
}

}  // namespace qkv::model
