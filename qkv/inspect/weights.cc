#include "qkv/inspect/weights.h"

#include <cmath>

#include "qkv/model/checkpoint/separate.h"
#include "qkv/model/config/block_config.h"

namespace qkv::inspect {

bool HasLayerNormBefore(const nn::BlockConfig& config) {
  return config.norm.kind == simd::NormKind::kLayer && config.norm_place == nn::NormPlace::kBefore;
}

void RequireLayerNormBefore(const nn::BlockConfig& config, std::string_view source) {
  Require(HasLayerNormBefore(config),
          "{}: the analysis of heads needs a LayerNorm before attention; this model has {} {} it", source,
          config.norm.kind == simd::NormKind::kRms ? "an RMSNorm" : "a LayerNorm", model::Name(config.norm_place));
}

AttentionWeights ReadAttention(const model::StoredBlocks& blocks, int64_t block) {
  const nn::BlockConfig& config = blocks.config();
  RequireLayerNormBefore(config, blocks.source());
  model::QueryKeyValue<double> made = model::ReadQueryKeyValue<double>(blocks, block);
  const std::string name = fmt::format("blocks.{}.", block);
  return {.heads = config.attention.heads,
          .scale = 1 / std::sqrt(static_cast<double>(config.attention.head_width)),
          .gamma = blocks.Read<double>(name + "norm1.weight"),
          .beta = blocks.Read<double>(name + "norm1.bias"),
          .eps = config.norm.eps,
          .query = {std::move(made.query), std::move(made.query_bias)},
          .key = {std::move(made.key), std::move(made.key_bias)},
          .value = {std::move(made.value), std::move(made.value_bias)},
          .output = {blocks.Read<double>(name + "attn.proj.weight"), blocks.Read<double>(name + "attn.proj.bias")},
          .layer_scale = blocks.Read<double>(name + "ls1.gamma")};
}

}  // namespace qkv::inspect
