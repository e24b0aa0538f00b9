#include "qkv/inspect/weights.h"

#include <algorithm>
#include <cmath>

#include "qkv/model/separate.h"

namespace qkv::inspect {

template <typename T>
Tensor<T> ReadTensor(const model::Checkpoint& checkpoint, const std::string& name) {
  const auto found = std::ranges::find(checkpoint.bound, name, [](const auto& bound) { return bound.spec.name; });
  return found == checkpoint.bound.end() ? Tensor<T>() : model::Read<T>(*found);
}

template <typename T>
AttentionWeights<T> ReadAttention(const model::Checkpoint& checkpoint, int64_t block) {
  const model::VitConfig& config = checkpoint.description.config;
  model::QueryKeyValue<T> made = model::ReadQueryKeyValue<T>(checkpoint, block);
  const std::string name = fmt::format("blocks.{}.", block);
  return {.heads = config.heads,
          .scale = 1 / std::sqrt(static_cast<double>(config.head_width)),
          .gamma = ReadTensor<T>(checkpoint, name + "norm1.weight"),
          .beta = ReadTensor<T>(checkpoint, name + "norm1.bias"),
          .eps = config.eps,
          .query = {std::move(made.query), std::move(made.query_bias)},
          .key = {std::move(made.key), std::move(made.key_bias)},
          .value = {std::move(made.value), std::move(made.value_bias)},
          .output = {ReadTensor<T>(checkpoint, name + "attn.proj.weight"),
                     ReadTensor<T>(checkpoint, name + "attn.proj.bias")},
          .layer_scale = ReadTensor<T>(checkpoint, name + "ls1.gamma")};
}

template Tensor<float> ReadTensor(const model::Checkpoint&, const std::string&);
template Tensor<double> ReadTensor(const model::Checkpoint&, const std::string&);
template AttentionWeights<float> ReadAttention(const model::Checkpoint&, int64_t);
template AttentionWeights<double> ReadAttention(const model::Checkpoint&, int64_t);

}  // namespace qkv::inspect
