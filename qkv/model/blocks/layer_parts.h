// The built layers of a model as tensors, and back: archives that write and read them, and the list of the parts of
// each layer. One list serves both directions, so they always match. Configuration and options determine which parts
// exist and their shapes; both storing and restoring check this. Not here: the parts of whole models (vit_parts.cc,
// text_parts.cc).
#pragma once

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "qkv/io/safetensors.h"
#include "qkv/model/blocks/options.h"
#include "qkv/nn/block.h"

namespace qkv::model {

using simd::PackedForm;
using simd::Precision;

// Functions of an archive: Constant, a value that is not stored; Part, a tensor that may be absent unless `needed`;
// Packed, a matrix that is absent if it has no outputs; Flag; and Count, the length of a list.
template <typename T>
class PartWriter {
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
class PartReader {
 public:
  explicit PartReader(std::shared_ptr<const io::SafeTensors> tensors) : tensors_(std::move(tensors)) {}

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

// The properties that determine the parts of an attention layer, apart from its precision.
struct AttentionForm {
  nn::AttentionConfig config;
  int64_t width, tokens;  // D; N at the trained size
  bool absorbs, fewer_queries;
  int64_t source = 0;  // width of the tokens that cross-attention reads; 0: keys and values are of the layer's own

  bool cross() const { return source > 0; }
};

inline AttentionForm MakeAttentionForm(const nn::BlockConfig& c, int64_t tokens, const AttentionBuild& build) {
  nn::AttentionConfig config = c.attention;
  config.kind = build.kind;
  if (build.kind == nn::AttentionKind::kMerged) config.qk_width = 0;
  return {config, c.width, tokens, build.absorbs, build.fewer_queries};
}

inline AttentionForm MakeCrossForm(const nn::BlockConfig& c) {
  nn::AttentionConfig config = *c.cross;
  if (config.kind == nn::AttentionKind::kMerged) config.qk_width = 0;
  return {config, c.width, 0, false, true, config.source(c.width)};
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
  const int64_t r = a.query_width(), G = a.kv_heads(), D = of.width, S = of.cross() ? of.source : D;
  const bool merged = a.kind == AttentionKind::kMerged, placed = nn::IsPositional(a.kind);
  const bool together = nn::HasQueriesAndKeys(a.kind) && !of.fewer_queries;
  const bool shared = nn::QueriesAreKeys(a.kind) && !of.cross();
  const bool queries = !together && (shared ? of.absorbs : !placed);
  const int64_t keys = merged || placed ? 0 : G * r, values = nn::ValuesAreKeys(a.kind) ? 0 : a.values_width();
  const bool in_one = keys > 0 && keys == values;
  LinearParts(archive, name + ".query", layer.query, form(!queries ? 0 : a.heads * (merged ? S : r), D));
  LinearParts(archive, name + ".query_key_value", layer.query_key_value,
              form((together ? a.heads * r : 0) + keys + (in_one ? values : 0), S));
  LinearParts(archive, name + ".value", layer.value, form(in_one ? 0 : values, S));
  // Those of cross-attention are in its queries.
  const bool symmetric = a.kind == AttentionKind::kSymmetric && !of.cross();
  archive.Part(name + ".eigenvalues", layer.eigenvalues, {a.heads, r}, symmetric);
  archive.Part(name + ".sinks", layer.sinks, {a.heads}, a.sinks);
  archive.Part(name + ".bandwidth", layer.bandwidth, {a.heads}, a.kind == AttentionKind::kGaussian);
  archive.Part(name + ".lambda", layer.lambda, {1}, a.maps() > 1);
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
void MlpParts(Archive& archive, const std::string& name, Mlp& mlp, const nn::BlockConfig& c, int64_t hidden,
              simd::Gate gate, Precision precision) {
  archive.Constant(mlp.activation, c.mlp.activation);
  LinearParts(archive, name + ".fc1", mlp.fc1, {hidden, c.width, gate, precision});
  LinearParts(archive, name + ".fc2", mlp.fc2, {c.width, hidden, simd::Gate::kNone, precision});
}

template <typename Archive, typename Layer>
void AttentionNormParts(Archive& archive, const std::string& name, Layer& layer, const nn::AttentionConfig& a,
                        const nn::NormConfig& norm) {
  NormParts(archive, name + ".query_norm", layer.query_norm, a.score_width(), norm);
  NormParts(archive, name + ".key_norm", layer.key_norm, a.score_width(), norm);
  if (a.maps() > 1) NormParts(archive, name + ".head_norm", layer.head_norm, a.head_width, nn::kHeadNorm);
  NormParts(archive, name + ".output_norm", layer.output_norm, a.joined_width(), norm);
}

// tokens: N at the trained size.
template <typename Archive, typename Block>
void BlockParts(Archive& archive, const std::string& name, Block& block, const nn::BlockConfig& c, int64_t tokens,
                const AttentionBuild& build, Precision precision) {
  archive.Constant(block.norm_place, c.norm_place);
  NormParts(archive, name + ".norm1", block.norm1, c.width, c.norm);
  AttentionParts(archive, name + ".attention", block.attention, MakeAttentionForm(c, tokens, build), precision);
  AttentionNormParts(archive, name + ".attention", block.attention, c.attention, c.norm);
  archive.Part(name + ".scale1", block.scale1, {c.width});
  if (c.cross) {
    NormParts(archive, name + ".norm_cross", block.norm_cross, c.width, c.norm);
    AttentionParts(archive, name + ".cross", block.cross, MakeCrossForm(c), precision);
    AttentionNormParts(archive, name + ".cross", block.cross, *c.cross, c.norm);
    archive.Part(name + ".scale_cross", block.scale_cross, {c.width});
  }
  NormParts(archive, name + ".norm2", block.norm2, c.width, c.norm);
  MlpParts(archive, name + ".mlp", block.mlp, c, c.mlp.width, c.mlp.gate, precision);
  NormParts(archive, name + ".mlp.norm", block.mlp.norm, c.mlp.width, c.norm);
  archive.Part(name + ".scale2", block.scale2, {c.width});
}

}  // namespace qkv::model
