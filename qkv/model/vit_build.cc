// From bound tensors to the layers of a Vit: converted, split and packed.
#include <algorithm>
#include <atomic>
#include <unordered_map>

#include "qkv/core/parallel.h"
#include "qkv/model/positions.h"
#include "qkv/model/vit.h"

namespace qkv::model {
namespace {

// A linear layer before it is packed, and what can be folded into it. Each of these is exact up to rounding, and rounds
// once.
template <typename T>
struct Affine {
  Tensor<T> weight;  // [rows, …]
  Tensor<T> bias;    // [rows], or empty
  int64_t rows = 0;
  simd::Precision precision = simd::Precision::kFloat32;  // to be packed in

  int64_t columns() const { return weight.size() / std::max<int64_t>(1, rows); }
  View<const T> matrix() const { return weight.view().reshape({rows, columns()}); }

  /// y = W (gamma · x + beta) + b of the normalised rows x. The norm keeps only what normalises.
  void FoldNorm(nn::Norm<T>* norm) {
    AddToBias(norm->beta);
    for (int64_t n = 0; n < rows; ++n) {
      T* row = weight.data() + n * columns();
      for (int64_t k = 0; k < columns(); ++k) row[k] *= norm->gamma[k];
    }
    *norm = {.eps = norm->eps, .folded = true};
  }

  /// y = scale · (W x + b)
  void FoldScale(Tensor<T>* scale) {
    for (int64_t n = 0; n < rows; ++n) {
      T* row = weight.data() + n * columns();
      for (int64_t k = 0; k < columns(); ++k) row[k] *= (*scale)[n];
      if (!bias.empty()) bias[n] *= (*scale)[n];
    }
    *scale = {};
  }

  /// b += W x, summed in double.
  void AddToBias(View<const T> x) {
    constexpr int64_t kLanes = 8;
    if (bias.empty()) bias = Tensor<T>({rows});
    for (int64_t n = 0; n < rows; ++n) {
      const T* row = weight.data() + n * columns();
      double sums[kLanes] = {};
      int64_t k = 0;
      for (; k + kLanes <= columns(); k += kLanes) {
        for (int64_t i = 0; i < kLanes; ++i) sums[i] += static_cast<double>(row[k + i]) * x.data()[k + i];
      }
      double sum = bias[n];
      for (; k < columns(); ++k) sum += static_cast<double>(row[k]) * x.data()[k];
      for (const double partial : sums) sum += partial;
      bias[n] = static_cast<T>(sum);
    }
  }

  /// W_Kᵀ and W_V of each head, from the rows of all heads' keys (from `keys` on) and values.
  nn::AbsorbedHeads<T> PackAbsorbed(int64_t keys, int64_t values, int64_t heads) const {
    nn::AbsorbedHeads<T> absorbed;
    const int64_t E = (values - keys) / heads;
    for (int64_t h = 0; h < heads; ++h) {
      const View<const T> key = matrix().slice(0, keys + h * E, keys + (h + 1) * E);
      const View<const T> transposed(key.data(), {key.dim(1), E}, {1, key.stride(0)});
      absorbed.key.push_back({simd::PackedMatrix<T>(transposed, precision), {}});
      absorbed.value.push_back(PackRows(values + h * E, values + (h + 1) * E));
    }
    return absorbed;
  }

  nn::Linear<T> Pack(simd::Gate gate = simd::Gate::kNone) const { return PackRows(0, rows, gate); }
  /// The layer of the outputs [begin, end) alone.
  nn::Linear<T> PackRows(int64_t begin, int64_t end, simd::Gate gate = simd::Gate::kNone) const {
    if (weight.empty()) return {};
    nn::Linear<T> linear{simd::PackedMatrix<T>(matrix().slice(0, begin, end), gate, precision), {}};
    if (!bias.empty()) {
      linear.bias = Tensor<T>::Uninitialised({end - begin});
      std::copy(bias.data() + begin, bias.data() + end, linear.bias.data());
    }
    return linear;
  }
};

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
    return found == by_name_.end() ? Tensor<T>() : Read<T>(*found->second);
  }

  nn::Norm<T> Norm(const std::string& name, double eps) const {
    return {Get(name + ".weight"), Get(name + ".bias"), static_cast<T>(eps)};
  }

  Affine<T> Layer(const std::string& name, simd::Precision precision = simd::Precision::kFloat32) const {
    Tensor<T> weight = Get(name + ".weight");
    const int64_t rows = weight.empty() ? 0 : weight.dim(0);
    return {std::move(weight), Get(name + ".bias"), rows, precision};
  }

  nn::Linear<T> Linear(const std::string& name) const { return Layer(name).Pack(); }

 private:
  std::unordered_map<std::string, const BoundTensor*> by_name_;
};

template <typename T>
nn::AttentionLayer<T> BuildAttention(const VitConfig& c, const BuildOptions& options, const Weights<T>& weights,
                                     const std::string& name, bool absorb, nn::Norm<T>* norm, Tensor<T>* scale) {
  const int64_t joined = c.heads * c.head_width;
  nn::AttentionLayer<T> layer;
  layer.bf16 = options.precision != simd::Precision::kFloat32;
  layer.heads = c.heads;
  layer.head_width = c.head_width;
  layer.query_norm = weights.Norm(name + "q_norm", c.eps);
  layer.key_norm = weights.Norm(name + "k_norm", c.eps);
  layer.output_norm = weights.Norm(name + "norm", c.eps);
  Affine<T> qkv = weights.Layer(name + "qkv", options.precision), projection = weights.Layer(name + "proj", options.precision);
  if (options.fold_norms) qkv.FoldNorm(norm);
  layer.query = qkv.PackRows(0, joined);
  const bool biased = !qkv.bias.empty();
  if (biased && options.fold_key_value_bias && layer.key_norm.empty()) {
    // q · (k + b) differs from q · k by the same for all keys, which the softmax takes away.
    std::fill_n(qkv.bias.data() + joined, joined, T(0));
    // The weights of a row sum to 1, so that values with a bias give the output that bias, before the projection.
    if (layer.output_norm.empty() && !projection.weight.empty()) {
      projection.AddToBias(View<const T>(qkv.bias.data() + 2 * joined, {joined}));
      qkv.bias = {};
    }
  }
  layer.key_value = qkv.PackRows(joined, 3 * joined);
  if (absorb) layer.absorbed = qkv.PackAbsorbed(joined, 2 * joined, c.heads);
  if (options.fold_scales && !scale->empty() && !projection.weight.empty()) projection.FoldScale(scale);
  layer.projection = projection.Pack();
  return layer;
}

template <typename T>
nn::Block<T> BuildBlock(const VitConfig& c, const BuildOptions& options, const Weights<T>& weights,
                        const std::string& name, bool absorb) {
  nn::Block<T> block;
  block.norm1 = weights.Norm(name + "norm1", c.eps);
  block.scale1 = weights.Get(name + "ls1.gamma");
  block.attention = BuildAttention(c, options, weights, name + "attn.", absorb, &block.norm1, &block.scale1);
  block.norm2 = weights.Norm(name + "norm2", c.eps);
  block.scale2 = weights.Get(name + "ls2.gamma");
  block.mlp.activation = c.activation;
  block.mlp.norm = weights.Norm(name + "mlp.norm", c.eps);
  Affine<T> fc1 = weights.Layer(name + "mlp.fc1", options.precision), fc2 = weights.Layer(name + "mlp.fc2", options.precision);
  if (options.fold_norms) fc1.FoldNorm(&block.norm2);
  if (options.fold_norms && !block.mlp.norm.empty()) fc2.FoldNorm(&block.mlp.norm);
  if (options.fold_scales && !block.scale2.empty()) fc2.FoldScale(&block.scale2);
  block.mlp.fc1 = fc1.Pack(c.gate);
  block.mlp.fc2 = fc2.Pack();
  return block;
}

template <typename T>
nn::AttentionPool<T> BuildAttentionPool(const VitConfig& c, const BuildOptions& options, const Weights<T>& weights) {
  nn::AttentionPool<T> pool;
  const Tensor<T> latent = weights.Get("attn_pool.latent");
  pool.latent = Tensor<T>::Uninitialised({1, c.width});
  std::copy_n(latent.data(), c.width, pool.latent.data());
  pool.attention.heads = c.heads;
  pool.attention.head_width = c.width / c.heads;
  pool.attention.query = weights.Linear("attn_pool.q");
  const Affine<T> key_value = weights.Layer("attn_pool.kv");
  pool.attention.key_value = key_value.Pack();
  if (options.absorb) pool.attention.absorbed = key_value.PackAbsorbed(0, c.width, c.heads);
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

}  // namespace

template <typename T>
uint64_t Vit<T>::NextId() {
  static std::atomic<uint64_t> built{0};
  return ++built;
}

template <typename T>
Vit<T>::Vit(const VitConfig& config, const std::vector<BoundTensor>& tensors, const BuildOptions& options)
    : config_(config), read_rows_(options.read_rows), id_(NextId()) {
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
    blocks_[static_cast<size_t>(block)] =
        BuildBlock(config, options, weights, fmt::format("blocks.{}.", block), Absorbs(options, block));
  });
  norm_ = weights.Norm("norm", config.eps);
  if (config.pool == Pool::kMap) attention_pool_ = BuildAttentionPool(config, options, weights);
  pooler_ = weights.Linear("pooler");
  fc_norm_ = weights.Norm("fc_norm", config.eps);
  head_norm_ = weights.Norm("head_norm", config.eps);
  head_ = weights.Linear("head");
  head_dist_ = weights.Linear("head_dist");
}

template uint64_t Vit<float>::NextId();
template uint64_t Vit<double>::NextId();
template Vit<float>::Vit(const VitConfig&, const std::vector<BoundTensor>&, const BuildOptions&);
template Vit<double>::Vit(const VitConfig&, const std::vector<BoundTensor>&, const BuildOptions&);

}  // namespace qkv::model
