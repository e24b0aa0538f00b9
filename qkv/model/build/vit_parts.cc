// The built layers of a Vit as tensors, and back. One list of its parts (Vit::Parts) serves both directions, so they
// always match. Configuration and options determine which parts exist and their shapes; both storing and restoring
// check this.
#include <cstring>

#include "qkv/io/safetensors.h"
#include "qkv/model/build/attention_orders.h"
#include "qkv/model/checkpoint/parameters.h"
#include "qkv/model/vit.h"

namespace qkv::model {
namespace {

using simd::PackedForm;
using simd::Precision;

// Functions of an archive: Constant, a value that is not stored; Part, a tensor that may be absent unless `needed`;
// Packed, a matrix that is absent if it has no outputs; Flag; and Count, the length of a list.
template <typename T>
class Writer {
 public:
  template <typename V>
  void Constant(const V& value, const V& expected) {
    Require(value == expected, "store: a layer is not what its configuration says");
  }
  void Part(const std::string& name, const Tensor<T>& tensor, const Shape& shape, bool needed = false) {
    if (tensor.empty() && !needed) return;
    Require(!tensor.empty() && tensor.shape() == shape, "store: {} is {}, expected {}", name, tensor.shape(), shape);
    tensors.push_back(io::Stored<T>(name, tensor));
  }
  void Packed(const std::string& name, const simd::PackedMatrix<T>& matrix, const PackedForm& form) {
    Require(form.outputs == 0 ? matrix.outputs() == 0 : matrix.form() == form,
            "store: {} is not packed as its configuration says", name);
    if (form.outputs == 0) return;
    if (form.precision == Precision::kFloat32) {
      tensors.push_back(io::Stored<T>(name + ".panels", matrix.memory()));
      return;
    }
    tensors.push_back(io::Stored<uint8_t>(name + ".groups", matrix.low().groups));
    if (!matrix.low().columns.empty()) tensors.push_back(io::Stored<float>(name + ".columns", matrix.low().columns));
  }
  void Flag(const std::string& name, bool flag) {
    if (flag) tensors.push_back({name, DType::kU8, {0}, {}});
  }
  template <typename List>
  void Count(const List& list, int64_t count) {
    Constant(static_cast<int64_t>(list.size()), count);
  }

  std::vector<io::StoredTensor> tensors;
};

template <typename T>
class Reader {
 public:
  explicit Reader(std::shared_ptr<const io::SafeTensors> tensors) : tensors_(std::move(tensors)) {}

  template <typename V>
  void Constant(V& value, const V& expected) {
    value = expected;
  }
  void Part(const std::string& name, Tensor<T>& tensor, const Shape& shape, bool needed = false) {
    tensor = Take<T>(name);
    if (tensor.empty() && !needed) return;
    Require(!tensor.empty() && tensor.shape() == shape, "restore: {} is {}, expected {}", name, tensor.shape(), shape);
  }
  void Packed(const std::string& name, simd::PackedMatrix<T>& matrix, const PackedForm& form) {
    if (form.outputs == 0) return;
    matrix = {form, {Take<T>(name + ".panels"), Take<uint8_t>(name + ".groups"), Take<float>(name + ".columns")}};
  }
  void Flag(const std::string& name, bool& flag) {
    flag = tensors_->Find(name) != nullptr;
    taken_ += flag;
  }
  template <typename List>
  void Count(List& list, int64_t count) {
    list.resize(static_cast<size_t>(count));
  }
  /// Throws Error if a tensor was not used.
  void Finish() const {
    Require(taken_ == tensors_->tensors().size(), "restore: {} of {} tensors belong to the model", taken_,
            tensors_->tensors().size());
  }

 private:
  // The tensor, without a copy if its bytes are aligned. Empty if there is no tensor of that name.
  template <typename E>
  Tensor<E> Take(const std::string& name) {
    const io::StoredTensor* stored = tensors_->Find(name);
    if (stored == nullptr) return {};
    ++taken_;
    Require(stored->dtype == DTypeFor<E>(), "restore: {} is of {}, expected {}", name, Name(stored->dtype),
            Name(DTypeFor<E>()));
    const auto* data = reinterpret_cast<const E*>(stored->bytes.data());
    if (reinterpret_cast<uintptr_t>(data) % kAlignment == 0) return Tensor<E>::Borrowed(data, stored->shape, tensors_);
    auto copy = Tensor<E>::Uninitialised(stored->shape);
    if (!stored->bytes.empty()) std::memcpy(copy.data(), stored->bytes.data(), stored->bytes.size());
    return copy;
  }

  std::shared_ptr<const io::SafeTensors> tensors_;
  size_t taken_ = 0;
};

template <typename Archive, typename Norm>
void NormParts(Archive& archive, const std::string& name, Norm& norm, int64_t width, const nn::NormConfig& config) {
  archive.Constant(norm.eps, static_cast<std::decay_t<decltype(norm.eps)>>(config.eps));
  archive.Constant(norm.kind, config.kind);
  archive.Flag(name + ".folded", norm.folded);
  archive.Part(name + ".gamma", norm.gamma, {width});
  archive.Part(name + ".beta", norm.beta, {width}, !norm.gamma.empty() && config.has_bias());
}

template <typename Archive, typename Linear>
void LinearParts(Archive& archive, const std::string& name, Linear& linear, const PackedForm& form) {
  archive.Packed(name, linear.weight, form);
  archive.Part(name + ".bias", linear.bias, {form.gate == simd::Gate::kNone ? form.outputs : 2 * form.outputs});
}

// What determines the parts of an attention layer, apart from its precision.
struct AttentionForm {
  nn::AttentionConfig config;
  int64_t width, tokens;  // D; N at the trained size
  bool absorbs, fewer_queries;
};

AttentionForm MakeAttentionForm(const VitConfig& c, const AttentionBuild& build) {
  nn::AttentionConfig config = c.block.attention;
  config.kind = build.kind;
  if (build.kind == nn::AttentionKind::kMerged) config.qk_width = 0;
  return {config, c.block.width, c.tokens(), build.absorbs, build.fewer_queries};
}

template <typename Archive, typename Layer>
void AttentionParts(Archive& archive, const std::string& name, Layer& layer, const AttentionForm& of,
                    Precision precision) {
  using nn::AttentionKind;
  const nn::AttentionConfig& a = of.config;
  const auto form = [&](int64_t outputs, int64_t inputs) { return PackedForm{outputs, inputs, {}, precision}; };
  archive.Constant(layer.bf16, precision != Precision::kFloat32);
  archive.Constant(layer.kind, a.kind);
  archive.Constant(layer.heads, a.heads);
  archive.Constant(layer.head_width, a.head_width);
  archive.Constant(layer.qk_width, a.qk_width);
  archive.Constant(layer.key_heads, a.key_heads);
  archive.Constant(layer.window_left, a.window_left);
  archive.Constant(layer.window_right, a.window_right);
  const int64_t r = a.query_width(), G = a.kv_heads(), D = of.width;
  const bool merged = a.kind == AttentionKind::kMerged, placed = nn::IsPositional(a.kind);
  const bool together = nn::HasQueriesAndKeys(a.kind) && !of.fewer_queries;
  const bool queries = !together && (nn::QueriesAreKeys(a.kind) ? of.absorbs : !placed);
  const int64_t keys = merged || placed ? 0 : G * r, values = nn::ValuesAreKeys(a.kind) ? 0 : a.values_width();
  const bool in_one = keys > 0 && keys == values;
  LinearParts(archive, name + ".query", layer.query, form(!queries ? 0 : a.heads * (merged ? D : r), D));
  LinearParts(archive, name + ".query_key_value", layer.query_key_value,
              form((together ? a.heads * r : 0) + keys + (in_one ? values : 0), D));
  LinearParts(archive, name + ".value", layer.value, form(in_one ? 0 : values, D));
  archive.Part(name + ".eigenvalues", layer.eigenvalues, {a.heads, r}, a.kind == AttentionKind::kSymmetric);
  archive.Part(name + ".sinks", layer.sinks, {a.heads}, a.sinks);
  archive.Part(name + ".bandwidth", layer.bandwidth, {a.heads}, a.kind == AttentionKind::kGaussian);
  archive.Part(name + ".places", layer.places, {2, a.heads, of.tokens, r}, a.kind == AttentionKind::kPositional);
  LinearParts(archive, name + ".projection", layer.projection, form(a.projection ? D : 0, a.joined_width()));
  archive.Count(layer.absorbed.key, of.absorbs && keys > 0 ? a.heads : 0);
  archive.Count(layer.absorbed.value, of.absorbs ? a.heads : 0);
  for (size_t h = 0; h < layer.absorbed.key.size(); ++h) {
    LinearParts(archive, fmt::format("{}.absorbed.{}.key", name, h), layer.absorbed.key[h], form(D, r));
  }
  for (size_t h = 0; h < layer.absorbed.value.size(); ++h) {
    LinearParts(archive, fmt::format("{}.absorbed.{}.value", name, h), layer.absorbed.value[h], form(a.head_width, D));
  }
}

template <typename Archive, typename Mlp>
void MlpParts(Archive& archive, const std::string& name, Mlp& mlp, const VitConfig& c, int64_t hidden, simd::Gate gate,
              Precision precision) {
  archive.Constant(mlp.activation, c.block.mlp.activation);
  LinearParts(archive, name + ".fc1", mlp.fc1, {hidden, c.block.width, gate, precision});
  LinearParts(archive, name + ".fc2", mlp.fc2, {c.block.width, hidden, simd::Gate::kNone, precision});
}

template <typename Archive, typename Block>
void BlockParts(Archive& archive, const std::string& name, Block& block, const VitConfig& c,
                const AttentionBuild& build, Precision precision) {
  archive.Constant(block.norm_place, c.block.norm_place);
  NormParts(archive, name + ".norm1", block.norm1, c.block.width, c.block.norm);
  AttentionParts(archive, name + ".attention", block.attention, MakeAttentionForm(c, build), precision);
  NormParts(archive, name + ".attention.query_norm", block.attention.query_norm, c.block.attention.query_width(),
            c.block.norm);
  NormParts(archive, name + ".attention.key_norm", block.attention.key_norm, c.block.attention.query_width(),
            c.block.norm);
  NormParts(archive, name + ".attention.output_norm", block.attention.output_norm, c.block.attention.joined_width(),
            c.block.norm);
  archive.Part(name + ".scale1", block.scale1, {c.block.width});
  NormParts(archive, name + ".norm2", block.norm2, c.block.width, c.block.norm);
  MlpParts(archive, name + ".mlp", block.mlp, c, c.block.mlp.width, c.block.mlp.gate, precision);
  NormParts(archive, name + ".mlp.norm", block.mlp.norm, c.block.mlp.width, c.block.norm);
  archive.Part(name + ".scale2", block.scale2, {c.block.width});
}

template <typename Archive, typename Pool>
void PoolParts(Archive& archive, const std::string& name, Pool& pool, const VitConfig& c, bool absorbs) {
  archive.Part(name + ".latent", pool.latent, {1, c.block.width}, true);
  AttentionParts(archive, name + ".attention", pool.attention,
                 {.config = {.heads = c.pool_heads(), .head_width = c.block.width / c.pool_heads()},
                  .width = c.block.width,
                  .tokens = c.tokens(),
                  .absorbs = absorbs,
                  .fewer_queries = true},
                 Precision::kFloat32);
  NormParts(archive, name + ".norm", pool.norm, c.block.width, c.block.norm);
  MlpParts(archive, name + ".mlp", pool.mlp, c, c.map_mlp_width, simd::Gate::kNone, Precision::kFloat32);
}

template <typename Archive, typename Head>
void MaskHeadParts(Archive& archive, Head& head, const VitConfig& c) {
  const int64_t D = c.block.width;
  archive.Constant(head.activation, c.mask_activation);
  LinearParts(archive, "mask_class", head.classes, {c.mask_classes + 1, D});
  for (size_t layer = 0; layer < head.queries.size(); ++layer) {
    LinearParts(archive, fmt::format("mask_head.{}", layer), head.queries[layer], {D, D});
  }
  archive.Count(head.doublings, c.mask_doublings);
  for (size_t i = 0; i < head.doublings.size(); ++i) {
    const std::string name = fmt::format("doubling.{}", i);
    auto& doubling = head.doublings[i];
    LinearParts(archive, name + ".expand", doubling.expand, {4 * D, D});
    archive.Part(name + ".smooth", doubling.smooth, {3, 3, D}, true);
    NormParts(archive, name + ".norm", doubling.norm, D, kMaskNorm);
  }
}

}  // namespace

template <typename T>
template <typename Archive, typename Self>
void Vit<T>::Parts(Archive& archive, Self& vit, const BuildOptions& options) {
  const VitConfig& c = vit.config_;
  archive.Part("prefix", vit.prefix_, {c.prefix(), c.block.width}, true);
  archive.Part("positions", vit.positions_, {c.patches(), c.block.width}, c.positions != Positions::kNone);
  archive.Part("block_positions", vit.block_positions_, {c.position_blocks(), c.tokens(), c.block.width},
               c.position_blocks() > 0);
  archive.Part("relative_biases", vit.relative_biases_,
               {c.relative_bias_tables(), c.block.attention.heads, c.relative_bias_rows()},
               c.relative_bias_tables() > 0);
  archive.Part("rotary_frequencies", vit.rotary_frequencies_,
               {2, c.depth, c.block.attention.heads, c.block.attention.query_width() / 2},
               c.rotary == PatchRotary::kMixed);
  archive.Constant(vit.patch_embed_.patch_height, c.patch_height);
  archive.Constant(vit.patch_embed_.patch_width, c.patch_width);
  archive.Constant(vit.patch_embed_.channel_last, c.patch_norms);
  NormParts(archive, "patch_embed.norm_in", vit.patch_embed_.norm_in, c.patch_features(), c.block.norm);
  LinearParts(archive, "patch_embed.projection", vit.patch_embed_.projection, {c.block.width, c.patch_features()});
  NormParts(archive, "patch_embed.norm_out", vit.patch_embed_.norm_out, c.block.width, c.block.norm);
  NormParts(archive, "norm_pre", vit.norm_pre_, c.block.width, c.block.norm);
  archive.Count(vit.blocks_, c.depth);
  for (int64_t block = 0; block < c.depth; ++block) {
    BlockParts(archive, fmt::format("blocks.{}", block), vit.blocks_[static_cast<size_t>(block)], c,
               ChooseAttentionBuild(c, options, block), options.precision);
  }
  NormParts(archive, "norm", vit.norm_, c.block.width, c.block.norm);
  if (c.pool == Pool::kMap) PoolParts(archive, "attention_pool", vit.attention_pool_, c, options.absorb);
  LinearParts(archive, "pooler", vit.pooler_, {c.pooler_width, c.block.width});
  NormParts(archive, "fc_norm", vit.fc_norm_, c.block.width, c.block.norm);
  LinearParts(archive, "projection", vit.projection_, {c.projection_width, c.projection_input()});
  NormParts(archive, "head_norm", vit.head_norm_, c.pooled_width(), c.block.norm);
  LinearParts(archive, "head", vit.head_, {c.classes, c.pooled_width()});
  LinearParts(archive, "head_dist", vit.head_dist_, {c.distillation_head ? c.classes : 0, c.block.width});
  const int64_t D = c.detection_classes > 0 ? c.block.width : 0;
  for (size_t layer = 0; layer < vit.class_head_.size(); ++layer) {
    const bool last = layer + 1 == vit.class_head_.size();
    LinearParts(archive, fmt::format("class_head.{}", layer), vit.class_head_[layer],
                {last && D > 0 ? c.detection_classes + 1 : D, c.block.width});
    LinearParts(archive, fmt::format("box_head.{}", layer), vit.box_head_[layer],
                {last && D > 0 ? 4 : D, c.block.width});
  }
  if (c.mask_classes > 0) MaskHeadParts(archive, vit.mask_head_, c);
}

template <typename T>
std::vector<io::StoredTensor> Vit<T>::Store(const BuildOptions& options) const {
  Writer<T> writer;
  Parts(writer, *this, options);
  return std::move(writer.tensors);
}

template <typename T>
Vit<T> Vit<T>::Restore(const VitConfig& config, const BuildOptions& options,
                       std::shared_ptr<const io::SafeTensors> tensors) {
  Vit vit;
  vit.config_ = config;
  vit.read_rows_ = options.read_rows;
  vit.id_ = NextId();
  vit.restored_from_ = tensors;
  Reader<T> reader(std::move(tensors));
  Parts(reader, vit, options);
  reader.Finish();
  vit.ComputeRotary();
  vit.LinkWeights();
  return vit;
}

template std::vector<io::StoredTensor> Vit<float>::Store(const BuildOptions&) const;
template Vit<float> Vit<float>::Restore(const VitConfig&, const BuildOptions&, std::shared_ptr<const io::SafeTensors>);

}  // namespace qkv::model
