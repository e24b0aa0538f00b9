#include "qkv/inspect/weights.h"

#include <algorithm>

namespace qkv::inspect {
namespace {

template <typename T>
Tensor<T> Get(const model::Checkpoint& checkpoint, const std::string& name) {
  const auto found = std::ranges::find(checkpoint.bound, name, [](const auto& bound) { return bound.spec.name; });
  return found == checkpoint.bound.end() ? Tensor<T>() : model::Read<T>(*found);
}

// The entries [begin, end) of the first axis.
template <typename T>
Tensor<T> Part(const Tensor<T>& tensor, int64_t begin, int64_t end) {
  if (tensor.empty()) return {};
  const View<const T> from = tensor.view().slice(0, begin, end);
  auto part = Tensor<T>::Uninitialised(from.shape());
  std::copy_n(from.data(), part.size(), part.data());
  return part;
}

}  // namespace

template <typename T>
AttentionWeights<T> ReadAttention(const model::Checkpoint& checkpoint, int64_t block) {
  const model::VitConfig& config = checkpoint.description.config;
  Require(block >= 0 && block < config.depth, "{}: expected a block from 0 to {}, got {}", checkpoint.source,
          config.depth - 1, block);
  const std::string name = fmt::format("blocks.{}.", block);
  const int64_t joined = config.heads * config.head_width;
  const auto weight = Get<T>(checkpoint, name + "attn.qkv.weight"), bias = Get<T>(checkpoint, name + "attn.qkv.bias");
  return {.heads = config.heads,
          .gamma = Get<T>(checkpoint, name + "norm1.weight"),
          .beta = Get<T>(checkpoint, name + "norm1.bias"),
          .eps = config.eps,
          .query = {Part(weight, 0, joined), Part(bias, 0, joined)},
          .key = {Part(weight, joined, 2 * joined), Part(bias, joined, 2 * joined)},
          .value = {Part(weight, 2 * joined, 3 * joined), Part(bias, 2 * joined, 3 * joined)},
          .output = {Get<T>(checkpoint, name + "attn.proj.weight"), Get<T>(checkpoint, name + "attn.proj.bias")}};
}

template AttentionWeights<float> ReadAttention(const model::Checkpoint&, int64_t);
template AttentionWeights<double> ReadAttention(const model::Checkpoint&, int64_t);

}  // namespace qkv::inspect
