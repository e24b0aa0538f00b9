#include "qkv/inspect/weights.h"

#include <array>
#include <cmath>

#include "qkv/algebra/fold.h"
#include "qkv/model/checkpoint/separate.h"
#include "qkv/model/config/block_config.h"

namespace qkv::inspect {

algebra::Projection FoldNorm(const algebra::ProjectionView& projection, TokenNorm norm, const Tensor<double>& gamma,
                             const Tensor<double>& beta) {
  if (norm == TokenNorm::kNone) {
    algebra::Projection copy{Tensor<double>({projection.weight.dim(0), projection.weight.dim(1)}), {}};
    for (int64_t i = 0; i < copy.weight.dim(0); ++i) {
      for (int64_t d = 0; d < copy.weight.dim(1); ++d) *copy.weight.view().at(i, d) = *projection.weight.at(i, d);
    }
    if (projection.bias.empty()) return copy;
    copy.bias = Tensor<double>({projection.bias.dim(0)});
    for (int64_t i = 0; i < copy.bias.size(); ++i) copy.bias[i] = *projection.bias.at(i);
    return copy;
  }
  algebra::Projection folded =
      algebra::FoldLayerNorm(projection, gamma, beta.empty() ? View<const double>() : beta.view());
  return norm == TokenNorm::kLayerNorm ? algebra::Centre(folded) : std::move(folded);
}

FoldedProjections FoldNorms(const AttentionWeights& weights) {
  const auto fold_source = [&](const algebra::Projection& layer) {
    return weights.source ? FoldNorm(layer, weights.source->norm, weights.source->gamma, weights.source->beta)
                          : FoldNorm(layer, weights.norm, weights.gamma, weights.beta);
  };
  return {FoldNorm(weights.query, weights.norm, weights.gamma, weights.beta), fold_source(weights.key),
          fold_source(weights.value)};
}

bool HasLayerNormBefore(const nn::BlockConfig& config) {
  return config.norm.kind == simd::NormKind::kLayer && config.norm_place == nn::NormPlace::kBefore;
}

void RequireLayerNormBefore(const nn::BlockConfig& config, std::string_view source) {
  constexpr std::array<std::string_view, 4> kPlaces = {"before it", "after it", "of its output",
                                                       "before it and the MLP beside it"};
  Require(HasLayerNormBefore(config), "{}: rewriting heads needs a LayerNorm before attention; this model has {} {}",
          source, config.norm.kind == simd::NormKind::kRms ? "an RMSNorm" : "a LayerNorm",
          kPlaces[static_cast<size_t>(config.norm_place)]);
}

AttentionWeights ReadAttention(const model::StoredBlocks& blocks, int64_t block, const NormBefore& norm, bool cross) {
  const nn::BlockConfig& config = blocks.config();
  model::QueryKeyValue<double> made =
      cross ? model::ReadCrossQueryKeyValue<double>(blocks, block) : model::ReadQueryKeyValue<double>(blocks, block);
  const nn::AttentionConfig& attention = cross ? *config.cross : config.attention;
  const std::string name = fmt::format("blocks.{}.", block), layer = name + (cross ? "cross_attn." : "attn.");
  const auto of_norm = [&](const char* tensor) {
    return norm.name.empty() ? Tensor<double>() : blocks.Read<double>(norm.name + tensor);
  };
  const TokenNorm kind = config.norm.kind == simd::NormKind::kRms ? TokenNorm::kRmsNorm : TokenNorm::kLayerNorm;
  return {.heads = attention.heads,
          .key_heads = attention.kv_heads(),
          .scale = 1 / std::sqrt(static_cast<double>(attention.head_width)),
          .norm = norm.name.empty() ? TokenNorm::kNone : kind,
          .norm_is_stream = norm.is_stream,
          .gamma = of_norm("weight"),
          .beta = of_norm("bias"),
          .eps = config.norm.eps,
          .source = {},
          .query = {std::move(made.query), std::move(made.query_bias)},
          .key = {std::move(made.key), std::move(made.key_bias)},
          .value = {std::move(made.value), std::move(made.value_bias)},
          .output = {blocks.Read<double>(layer + "proj.weight"), blocks.Read<double>(layer + "proj.bias")},
          .layer_scale = blocks.Read<double>(name + (cross ? "ls_cross.gamma" : "ls1.gamma")),
          .output_is_centred = kind == TokenNorm::kLayerNorm};
}

AttentionWeights ReadAttention(const model::StoredBlocks& blocks, int64_t block) {
  RequireLayerNormBefore(blocks.config(), blocks.source());
  return ReadAttention(blocks, block, {.name = fmt::format("blocks.{}.norm1.", block)});
}

}  // namespace qkv::inspect
