#include "qkv/inspect/weights.h"

#include <cmath>

#include "qkv/model/separate.h"

namespace qkv::inspect {

template <typename T>
AttentionWeights<T> ReadAttention(const model::Checkpoint& checkpoint, int64_t block) {
  const model::VitConfig& config = checkpoint.description.config;
  model::QueryKeyValue<T> made = model::ReadQueryKeyValue<T>(checkpoint, block);
  const std::string name = fmt::format("blocks.{}.", block);
  return {.heads = config.heads,
          .scale = 1 / std::sqrt(static_cast<double>(config.head_width)),
          .gamma = model::ReadTensor<T>(checkpoint, name + "norm1.weight"),
          .beta = model::ReadTensor<T>(checkpoint, name + "norm1.bias"),
          .eps = config.eps,
          .query = {std::move(made.query), std::move(made.query_bias)},
          .key = {std::move(made.key), std::move(made.key_bias)},
          .value = {std::move(made.value), std::move(made.value_bias)},
          .output = {model::ReadTensor<T>(checkpoint, name + "attn.proj.weight"),
                     model::ReadTensor<T>(checkpoint, name + "attn.proj.bias")},
          .layer_scale = model::ReadTensor<T>(checkpoint, name + "ls1.gamma")};
}

template AttentionWeights<float> ReadAttention(const model::Checkpoint&, int64_t);
template AttentionWeights<double> ReadAttention(const model::Checkpoint&, int64_t);

}  // namespace qkv::inspect
