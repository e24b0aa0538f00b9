// From bound tensors to the layers of a Vit: converted, split and packed.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <tuple>
#include <unordered_map>

#include "qkv/core/parallel.h"
#include "qkv/io/safetensors.h"
#include "qkv/model/positions.h"
#include "qkv/model/vit.h"

namespace qkv::model {
namespace {

// Hands out converted tensors by canonical name.
template <typename T>
class Weights {
 public:
  explicit Weights(const std::vector<BoundTensor>& tensors) {
    for (const BoundTensor& tensor : tensors) by_name_.emplace(tensor.spec.name, &tensor);
  }

  bool Has(const std::string& name) const { return by_name_.contains(name); }

  /// The tensor in the table's shape; empty when the configuration has none of that name.
  Tensor<T> Get(const std::string& name) const {
    const auto found = by_name_.find(name);
    if (found == by_name_.end()) return {};
    const BoundTensor& bound = *found->second;
    auto tensor = Tensor<T>::Uninitialised(bound.spec.shape);
    T* to = tensor.data();
    for (const io::StoredTensor* part : bound.parts) {
      io::ConvertTo<T>(*part, to);
      to += part->shape.size();
    }
    RequireFinite(tensor, name);
    return tensor;
  }

  nn::Norm<T> Norm(const std::string& name, double eps) const {
    return {Get(name + ".weight"), Get(name + ".bias"), static_cast<T>(eps)};
  }

  nn::Linear<T> Linear(const std::string& name) const {
    const Tensor<T> weight = Get(name + ".weight");
    if (weight.empty()) return {};
    const View<const T> rows =
        weight.view().reshape({weight.dim(0), weight.size() / std::max<int64_t>(1, weight.dim(0))});
    return {simd::PackedMatrix<T>(rows), Get(name + ".bias")};
  }

  /// A linear layer in two: its first `rows` outputs, and the others.
  std::pair<nn::Linear<T>, nn::Linear<T>> LinearInTwo(const std::string& name, int64_t rows) const {
    const Tensor<T> weight = Get(name + ".weight"), bias = Get(name + ".bias");
    const auto part = [&](int64_t begin, int64_t end) {
      nn::Linear<T> linear{simd::PackedMatrix<T>(weight.view().slice(0, begin, end)), {}};
      if (!bias.empty()) {
        linear.bias = Tensor<T>::Uninitialised({end - begin});
        std::copy(bias.data() + begin, bias.data() + end, linear.bias.data());
      }
      return linear;
    };
    return {part(0, rows), part(rows, weight.dim(0))};
  }

 private:
  // A NaN would silently spread to every answer. x − x is zero for finite numbers only, and the sum vectorises.
  static void RequireFinite(const Tensor<T>& tensor, const std::string& name) {
    constexpr int kLanes = 16;
    T sums[kLanes] = {};
    const T* x = tensor.data();
    int64_t i = 0;
    for (; i + kLanes <= tensor.size(); i += kLanes) {
      for (int lane = 0; lane < kLanes; ++lane) sums[lane] += x[i + lane] - x[i + lane];
    }
    bool finite = true;
    for (; i < tensor.size(); ++i) finite &= std::isfinite(x[i]);
    for (const T sum : sums) finite &= sum == T(0);
    Require(finite, "checkpoint: tensor \"{}\" holds NaN or infinity", name);
  }

  std::unordered_map<std::string, const BoundTensor*> by_name_;
};

template <typename T>
nn::AttentionLayer<T> BuildAttention(const VitConfig& c, const Weights<T>& weights, const std::string& name) {
  nn::AttentionLayer<T> layer;
  layer.heads = c.heads;
  layer.head_width = c.head_width;
  std::tie(layer.query, layer.key_value) = weights.LinearInTwo(name + "qkv", c.heads * c.head_width);
  layer.query_norm = weights.Norm(name + "q_norm", c.eps);
  layer.key_norm = weights.Norm(name + "k_norm", c.eps);
  layer.output_norm = weights.Norm(name + "norm", c.eps);
  layer.projection = weights.Linear(name + "proj");
  return layer;
}

template <typename T>
nn::Block<T> BuildBlock(const VitConfig& c, const Weights<T>& weights, const std::string& name) {
  nn::Block<T> block;
  block.norm1 = weights.Norm(name + "norm1", c.eps);
  block.attention = BuildAttention(c, weights, name + "attn.");
  block.scale1 = weights.Get(name + "ls1.gamma");
  block.norm2 = weights.Norm(name + "norm2", c.eps);
  block.mlp.kind = c.mlp;
  block.mlp.activation = c.activation;
  block.mlp.fc1 = weights.Linear(name + "mlp.fc1");
  block.mlp.norm = weights.Norm(name + "mlp.norm", c.eps);
  block.mlp.fc2 = weights.Linear(name + "mlp.fc2");
  block.scale2 = weights.Get(name + "ls2.gamma");
  return block;
}

template <typename T>
nn::AttentionPool<T> BuildAttentionPool(const VitConfig& c, const Weights<T>& weights) {
  nn::AttentionPool<T> pool;
  const Tensor<T> latent = weights.Get("attn_pool.latent");
  pool.latent = Tensor<T>::Uninitialised({1, c.width});
  std::copy_n(latent.data(), c.width, pool.latent.data());
  pool.attention.heads = c.heads;
  pool.attention.head_width = c.width / c.heads;
  pool.attention.query = weights.Linear("attn_pool.q");
  pool.attention.key_value = weights.Linear("attn_pool.kv");
  pool.attention.projection = weights.Linear("attn_pool.proj");
  pool.norm = weights.Norm("attn_pool.norm", c.eps);
  pool.mlp.activation = c.activation;
  pool.mlp.fc1 = weights.Linear("attn_pool.mlp.fc1");
  pool.mlp.fc2 = weights.Linear("attn_pool.mlp.fc2");
  return pool;
}

// The tokens before the patches with their positions added, and the patches' positions.
template <typename T>
void BuildTokens(const VitConfig& c, const Weights<T>& weights, Tensor<T>* prefix, Tensor<T>* positions) {
  *prefix = Tensor<T>({c.prefix(), c.width});
  T* to = prefix->data();
  for (const char* name : {"cls_token", "dist_token", "reg_token"}) {
    const Tensor<T> token = weights.Get(name);
    to = std::copy_n(token.data(), token.empty() ? 0 : token.size(), to);
  }
  if (c.positions == Positions::kSinCos) {
    *positions = Tensor<T>({c.patches(), c.width});
    SinCosGrid<T>(c.grid_height(), c.grid_width(), *positions);
  } else if (c.positions == Positions::kLearned) {
    const Tensor<T> all = weights.Get("pos_embed");
    const int64_t of_prefix = c.position_prefix * c.width;
    for (int64_t i = 0; i < of_prefix; ++i) prefix->data()[i] += all[i];
    *positions = Tensor<T>::Uninitialised({c.patches(), c.width});
    std::copy(all.data() + of_prefix, all.data() + all.size(), positions->data());
  }
}

std::atomic<uint64_t> g_built{0};

}  // namespace

template <typename T>
Vit<T>::Vit(const VitConfig& config, const std::vector<BoundTensor>& tensors) : config_(config), id_(++g_built) {
  const Weights<T> weights(tensors);
  BuildTokens(config, weights, &prefix_, &positions_);
  patch_embed_.patch_height = config.patch_height;
  patch_embed_.patch_width = config.patch_width;
  patch_embed_.channel_last = config.patch_norms;
  patch_embed_.norm_in = weights.Norm("patch_embed.norm_in", config.eps);
  patch_embed_.projection = weights.Linear("patch_embed.proj");
  patch_embed_.norm_out = weights.Norm("patch_embed.norm_out", config.eps);
  norm_pre_ = weights.Norm("norm_pre", config.eps);
  blocks_.resize(static_cast<size_t>(config.depth));
  ParallelTasks(config.depth, [&](int64_t block, int) {
    blocks_[static_cast<size_t>(block)] = BuildBlock(config, weights, fmt::format("blocks.{}.", block));
  });
  norm_ = weights.Norm("norm", config.eps);
  if (config.pool == Pool::kMap) attention_pool_ = BuildAttentionPool(config, weights);
  pooler_ = weights.Linear("pooler");
  fc_norm_ = weights.Norm("fc_norm", config.eps);
  head_norm_ = weights.Norm("head_norm", config.eps);
  head_ = weights.Linear("head");
  head_dist_ = weights.Linear("head_dist");
}

template Vit<float>::Vit(const VitConfig&, const std::vector<BoundTensor>&);
template Vit<double>::Vit(const VitConfig&, const std::vector<BoundTensor>&);

}  // namespace qkv::model
