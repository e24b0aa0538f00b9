// Builds the layers of a Vit from bound tensors: converts, splits and packs them. Not here: the forward pass
// (vit.cc).
#include <algorithm>
#include <atomic>

#include "qkv/core/memory.h"
#include "qkv/core/parallel.h"
#include "qkv/model/blocks/affine.h"
#include "qkv/model/blocks/attention.h"
#include "qkv/model/blocks/attention_orders.h"
#include "qkv/model/blocks/relative_bias.h"
#include "qkv/model/layout/bound_tensor.h"
#include "qkv/model/layout/limits.h"
#include "qkv/model/layout/parameters.h"
#include "qkv/model/layout/positions.h"
#include "qkv/model/vision/vit.h"

namespace qkv::model {
namespace {

template <typename T>
nn::AttentionPool<T> BuildAttentionPool(const VitConfig& c, const BuildOptions& options, const Weights<T>& weights) {
  nn::AttentionPool<T> pool;
  const Tensor<T> latent = weights.Get("attn_pool.latent");
  pool.latent = Tensor<T>::Uninitialised({1, c.block.width});
  std::copy_n(latent.data(), c.block.width, pool.latent.data());
  pool.attention.heads = c.pool_heads();
  pool.attention.head_width = c.block.width / c.pool_heads();
  pool.attention.query = weights.Linear("attn_pool.q");
  const Affine<T> key_value = weights.Layer("attn_pool.kv");
  pool.attention.query_key_value = key_value.Pack();
  if (options.absorb) {
    const int64_t E = pool.attention.head_width;
    pool.attention.absorbed = {key_value.PackTransposedHeads(0, E, c.pool_heads()),
                               key_value.PackHeads(c.block.width, E, c.pool_heads())};
  }
  pool.attention.projection = weights.Linear("attn_pool.proj");
  pool.norm = weights.Norm("attn_pool.norm", c.block.norm);
  pool.mlp.activation = c.block.mlp.activation;
  pool.mlp.fc1 = weights.Linear("attn_pool.mlp.fc1");
  pool.mlp.fc2 = weights.Linear("attn_pool.mlp.fc2");
  return pool;
}

// Prefix tokens with their positions added, and the positions of the patches.
template <typename T>
void BuildTokens(const VitConfig& c, const Weights<T>& weights, Tensor<T>* prefix, Tensor<T>* positions) {
  *prefix = Tensor<T>({c.prefix(), c.block.width});
  T* to = prefix->data();
  for (const char* name : {"cls_token", "dist_token", "reg_token", "det_token", "query_token"}) {
    const Tensor<T> token = weights.Get(name);
    to = std::copy_n(token.data(), token.empty() ? 0 : token.size(), to);
  }
  if (c.positions == Positions::kSinCos) {
    *positions = Tensor<T>({c.patches(), c.block.width});
    SinCosGrid<T>(c.grid_height(), c.grid_width(), *positions);
  } else if (c.positions == Positions::kLearned) {
    const Tensor<T> all = weights.Get("pos_embed");
    const int64_t of_prefix = c.position_prefix * c.block.width;
    for (int64_t i = 0; i < of_prefix; ++i) prefix->data()[i] += all[i];
    *positions = Tensor<T>::Uninitialised({c.patches(), c.block.width});
    std::copy(all.data() + of_prefix, all.data() + all.size(), positions->data());
  }
}

// The tables of biases by relative position: each block's, the shared one, or their sums.
template <typename T>
Tensor<T> BuildRelativeBiases(const VitConfig& c, const Weights<T>& weights) {
  if (c.relative_bias_tables() == 0) return {};
  Tensor<T> tables({c.relative_bias_tables(), c.block.attention.heads, c.relative_bias_rows()});
  const Tensor<T> shared = weights.Get("rel_pos_bias.relative_position_bias_table");
  for (int64_t table = 0; table < tables.dim(0); ++table) {
    const Tensor<T> own = weights.Get(fmt::format("blocks.{}.attn.relative_position_bias_table", table));
    if (!shared.empty()) AddRelativeBiases<T>(shared, tables.view()[table]);
    if (!own.empty()) AddRelativeBiases<T>(own, tables.view()[table]);
  }
  return tables;
}

// A transposed convolution of 2×2 with stride 2 as a linear layer: [in, out, 2, 2] becomes [2, 2, out, in].
template <typename T>
nn::Linear<T> BuildExpansion(const std::string& name, int64_t D, const Weights<T>& weights) {
  const Tensor<T> stored = weights.Get(name + ".weight"), bias = weights.Get(name + ".bias");
  Affine<T> layer{Tensor<T>::Uninitialised({4 * D, D}), Tensor<T>::Uninitialised({4 * D}), 4 * D,
                  weights.In(simd::Precision::kFloat32)};
  for (int64_t place = 0; place < 4; ++place) {
    std::copy_n(bias.data(), D, layer.bias.data() + place * D);
    for (int64_t out = 0; out < D; ++out) {
      T* const row = layer.weight.data() + (place * D + out) * D;
      for (int64_t in = 0; in < D; ++in) row[in] = stored[(in * D + out) * 4 + place];
    }
  }
  return layer.Pack();
}

template <typename T>
nn::MaskHead<T> BuildMaskHead(const VitConfig& c, const Weights<T>& weights) {
  const int64_t D = c.block.width;
  nn::MaskHead<T> head;
  head.activation = c.mask_activation;
  head.classes = weights.Linear("mask_class");
  for (size_t layer = 0; layer < head.queries.size(); ++layer) {
    head.queries[layer] = weights.Linear(fmt::format("mask_head.{}", layer));
  }
  for (int64_t i = 0; i < c.mask_doublings; ++i) {
    const std::string name = fmt::format("doubling.{}.", i);
    const Tensor<T> smooth = weights.Get(name + "smooth.weight");
    nn::GridDoubling<T>& doubling = head.doublings.emplace_back();
    doubling.expand = BuildExpansion(name + "expand", D, weights);
    doubling.smooth = Tensor<T>::Uninitialised({3, 3, D});
    for (int64_t d = 0; d < D; ++d) {
      for (int64_t place = 0; place < 9; ++place) doubling.smooth[place * D + d] = smooth[d * 9 + place];
    }
    doubling.norm = weights.Norm(name + "norm", kMaskNorm);
  }
  return head;
}

}  // namespace

template <typename T>
uint64_t Vit<T>::NextId() {
  static std::atomic<uint64_t> built{0};
  return ++built;
}

template <typename T>
Vit<T>::Vit(const VitConfig& config, const std::vector<BoundTensor>& tensors, const BuildOptions& options)
    : config_(config), read_rows_(options.read_rows), id_(NextId()) {
  double elements = PlaceElements(config, config.positions == Positions::kSinCos ? config.patches() : 0);
  elements += RelativeBiasElements(config, config.grid_height(), config.grid_width());
  for (const BoundTensor& tensor : tensors) elements += static_cast<double>(tensor.spec.shape.size());
  RequireMemory(sizeof(T) * elements, "build: the model's layers");
  const Weights<T> weights(tensors);
  BuildTokens(config, weights, &prefix_, &positions_);
  block_positions_ = weights.Get("block_pos_embed");
  patch_embed_.patch_height = config.patch_height;
  patch_embed_.patch_width = config.patch_width;
  patch_embed_.channel_last = config.patch_norms;
  patch_embed_.norm_in = weights.Norm("patch_embed.norm_in", config.block.norm);
  patch_embed_.projection = weights.Linear("patch_embed.proj");
  patch_embed_.norm_out = weights.Norm("patch_embed.norm_out", config.block.norm);
  norm_pre_ = weights.Norm("norm_pre", config.block.norm);
  blocks_.resize(static_cast<size_t>(config.depth));
  ParallelTasks(config.depth, [&](int64_t block, int) {
    blocks_[static_cast<size_t>(block)] =
        BuildBlock(config.block, config.tokens(), options, weights, fmt::format("blocks.{}.", block),
                   ChooseAttentionBuild(config, options, block));
  });
  relative_biases_ = BuildRelativeBiases(config, weights);
  rotary_frequencies_ = weights.Get("rope.freqs");
  ComputeRotary();
  norm_ = weights.Norm("norm", config.block.norm);
  if (config.pool == Pool::kMap) attention_pool_ = BuildAttentionPool(config, options, weights);
  pooler_ = weights.Linear("pooler");
  fc_norm_ = weights.Norm("fc_norm", config.block.norm);
  projection_ = weights.Linear("projection");
  head_norm_ = weights.Norm("head_norm", config.block.norm);
  head_ = weights.Linear("head");
  head_dist_ = weights.Linear("head_dist");
  for (size_t layer = 0; layer < class_head_.size(); ++layer) {
    class_head_[layer] = weights.Linear(fmt::format("class_head.{}", layer));
    box_head_[layer] = weights.Linear(fmt::format("box_head.{}", layer));
  }
  if (config.mask_classes > 0) mask_head_ = BuildMaskHead(config, weights);
  LinkWeights();
}

template <typename T>
void Vit<T>::ComputeRotary() {
  if (config_.rotary == PatchRotary::kNone) return;
  const bool waits = config_.queries_wait(0);
  RequireMemory((waits ? 2 : 1) * RotaryBytes(config_, config_.tokens()), "build: the rotations of the model's tokens");
  const auto make = [&](const VitConfig& config) {
    return std::make_shared<const std::vector<nn::RotaryTable>>(
        MakeRotaryTables(config, config.grid_height(), config.grid_width(), rotary_frequencies_));
  };
  rotary_ = make(config_);
  if (waits) waiting_rotary_ = make(WithoutQueries(config_));
}

template <typename T>
void Vit<T>::LinkWeights() {
  // The order in which the tokens of all images pass through the blocks together. If images pass in groups, or fewer
  // rows are read, some hints are wrong, and a slice of weights is prefetched in vain.
  std::vector<nn::Linear<T>*> order{&patch_embed_.projection};
  for (nn::Block<T>& block : blocks_) {
    nn::AttentionLayer<T>& attention = block.attention;
    order.insert(order.end(), {&attention.query_key_value, &attention.projection, &block.mlp.fc1, &block.mlp.fc2});
  }
  order.push_back(&head_);
  std::erase_if(order, [](const nn::Linear<T>* layer) { return layer->empty(); });
  for (size_t i = 0; i < order.size(); ++i) order[i]->weight.set_next(order[(i + 1) % order.size()]->weight);
}

template uint64_t Vit<float>::NextId();
template uint64_t Vit<double>::NextId();
template void Vit<float>::ComputeRotary();
template void Vit<double>::ComputeRotary();
template void Vit<float>::LinkWeights();
template void Vit<double>::LinkWeights();
template Vit<float>::Vit(const VitConfig&, const std::vector<BoundTensor>&, const BuildOptions&);
template Vit<double>::Vit(const VitConfig&, const std::vector<BoundTensor>&, const BuildOptions&);

}  // namespace qkv::model
