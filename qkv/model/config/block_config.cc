#include "qkv/model/config/block_config.h"

#include <algorithm>
#include <utility>

#include "qkv/core/error.h"
#include "qkv/core/name_table.h"
#include "qkv/model/config/config_fields.h"

namespace qkv::model {
namespace {

using nn::AttentionKind;
constexpr std::pair<AttentionKind, std::string_view> kAttentionKinds[] = {
    {AttentionKind::kSeparate, "separate"},     {AttentionKind::kShared, "shared"},
    {AttentionKind::kUnified, "unified"},       {AttentionKind::kSharedKeyValue, "shared_kv"},
    {AttentionKind::kMerged, "merged"},         {AttentionKind::kLowRank, "low_rank"},
    {AttentionKind::kSymmetric, "symmetric"},   {AttentionKind::kGaussian, "gaussian"},
    {AttentionKind::kPositional, "positional"}, {AttentionKind::kDifferential, "differential"}};

using simd::Activation;
constexpr std::pair<Activation, std::string_view> kActivations[] = {{Activation::kGelu, "gelu"},
                                                                    {Activation::kGeluTanh, "gelu_tanh"},
                                                                    {Activation::kGeluTanh, "gelu_pytorch_tanh"},
                                                                    {Activation::kGeluTanh, "gelu_new"},
                                                                    {Activation::kGeluTanh, "gelu_fast"},
                                                                    {Activation::kQuickGelu, "quick_gelu"},
                                                                    {Activation::kQuickGelu, "quickgelu"},
                                                                    {Activation::kRelu, "relu"},
                                                                    {Activation::kSilu, "silu"},
                                                                    {Activation::kSilu, "swish"},
                                                                    {Activation::kTanh, "tanh"},
                                                                    {Activation::kNone, "none"}};

constexpr std::pair<simd::NormKind, std::string_view> kNormKinds[] = {{simd::NormKind::kLayer, "layer"},
                                                                      {simd::NormKind::kRms, "rms"}};
constexpr std::pair<nn::NormPlace, std::string_view> kNormPlaces[] = {{nn::NormPlace::kBefore, "before"},
                                                                      {nn::NormPlace::kAfter, "after"},
                                                                      {nn::NormPlace::kOutput, "output"},
                                                                      {nn::NormPlace::kParallel, "parallel"}};

// Why a kind does not allow a norm of queries and keys.
std::string_view QkNormObstruction(AttentionKind kind) {
  if (nn::ValuesAreKeys(kind)) return "its keys are its values too";
  if (nn::IsPositional(kind)) return "its scores do not come from tokens";
  return "its queries and keys are one matrix: neither is there to be normalised";
}

// Why a kind does not allow fewer heads of keys than of queries.
std::string_view KeyHeadsObstruction(AttentionKind kind) {
  if (nn::QueriesAreKeys(kind)) return "its queries and keys are one projection";
  if (nn::IsPositional(kind)) return "its scores do not come from tokens";
  return "its queries and keys are one matrix";
}

void ValidateAttention(const nn::AttentionConfig& c, const nn::BlockConfig& block) {
  Require(c.joined_width() <= kMaxExtent, "config: {} heads of {} features are too wide", c.heads, c.head_width);
  const AttentionKind kind = c.kind;
  if (kind == AttentionKind::kLowRank || kind == AttentionKind::kSymmetric) {
    RequireRange(fmt::format("the rank of {} attention", Name(kind)), c.qk_width, 1, block.width);
  } else if (kind == AttentionKind::kPositional) {
    RequireRange("the rank of positional attention", c.qk_width, 0, kMaxExtent);
  } else {
    Require(c.qk_width == 0, "config: {} attention has no rank of its own, got {}", Name(kind), c.qk_width);
  }
  Require(c.heads * c.query_width() <= kMaxExtent, "config: {} heads of rank {} are too wide", c.heads, c.qk_width);
  RequireRange("the number of key heads", c.key_heads, 0, c.heads);
  Require(!c.groups_heads() || nn::AllowsKeyHeads(kind), "config: {} attention does not allow key heads: {}",
          Name(kind), KeyHeadsObstruction(kind));
  Require(c.heads % c.kv_heads() == 0, "config: {} heads cannot share {} key heads evenly", c.heads, c.key_heads);
  if (c.of_source) {
    Require(!nn::IsPositional(kind), "config: {} attention has no source", Name(kind));
    Require(!c.has_window(), "config: cross-attention has no window: its keys are tokens of another sequence");
    Require(!nn::QueriesAreKeys(kind) || c.source(block.width) == block.width,
            "config: {} cross-attention needs a source of width {}, got {}", Name(kind), block.width,
            c.source(block.width));
  }
  Require(
      !c.sinks || kind != AttentionKind::kMerged,
      "config: merged attention with sinks: its scores lack terms that are the same for all keys of a query; expected "
      "another kind, or no sinks");
  Require(!c.sinks || c.maps() == 1,
          "config: differential attention with sinks: expected another kind, or no sinks, which no such model has");
  Require(c.head_width % c.maps() == 0,
          "config: the two maps of differential attention share a head's {} features, "
          "expected an even number",
          c.head_width);
  Require(!c.qk_norm || nn::AllowsQueryKeyNorm(kind), "config: {} attention with a LayerNorm on queries and keys: {}",
          Name(kind), c.qk_norm ? QkNormObstruction(kind) : "");
}

}  // namespace

void RequireRange(std::string_view name, int64_t value, int64_t low, int64_t high) {
  Require(value >= low && value <= high, "config: {} is {}, expected {} to {}", name, value, low, high);
}

std::string_view Name(AttentionKind kind) { return FindName(kAttentionKinds, kind); }
std::optional<AttentionKind> FindAttentionKind(std::string_view name) {
  return FindIn<AttentionKind>(kAttentionKinds, name);
}
std::string_view Name(simd::NormKind kind) { return FindName(kNormKinds, kind); }
std::string_view Name(nn::NormPlace place) { return FindName(kNormPlaces, place); }
std::optional<simd::NormKind> FindNormKind(std::string_view name) { return FindIn<simd::NormKind>(kNormKinds, name); }
std::optional<nn::NormPlace> FindNormPlace(std::string_view name) {
  return FindIn<nn::NormPlace>(std::span(kNormPlaces).first<2>(), name);  // the others are of images alone
}
std::string_view Name(Activation activation) { return FindName(kActivations, activation); }
std::optional<Activation> FindActivation(std::string_view name) {
  const auto found = FindIn<Activation>(kActivations, name);
  return found == Activation::kNone ? std::nullopt : found;  // every library's MLP has an activation
}

int64_t HiddenWidth(int64_t width, double ratio) {
  const double hidden = static_cast<double>(width) * ratio;
  return hidden >= 0 && hidden <= kMaxExtent ? static_cast<int64_t>(hidden) : 0;
}

void Validate(const nn::BlockConfig& c) {
  nn::BlockConfig fields = c;
  FieldBounds bounds;
  VisitFields(fields, bounds);
  ValidateAttention(c.attention, c);
  Require(c.norm_place != nn::NormPlace::kOutput || !c.layer_scale, "config: norms of outputs beside LayerScale");
  Require(c.norm_place != nn::NormPlace::kParallel || !c.cross, "config: cross-attention beside a parallel MLP");
  Require(!c.attention.of_source && (!c.cross || c.cross->of_source),
          "config: cross-attention, and no other, is of a source");
  if (fields.cross) {
    VisitFields(*fields.cross, bounds);
    RequireRange("the width of the source", fields.cross->source_width, 0, kMaxExtent);
    ValidateAttention(*fields.cross, c);
  }
}

}  // namespace qkv::model
