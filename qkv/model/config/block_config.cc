#include "qkv/model/config/block_config.h"

#include <utility>

#include "qkv/core/error.h"
#include "qkv/core/name_table.h"

namespace qkv::model {
namespace {

using nn::AttentionKind;
constexpr std::pair<AttentionKind, std::string_view> kAttentionKinds[] = {
    {AttentionKind::kSeparate, "separate"},    {AttentionKind::kShared, "shared"},
    {AttentionKind::kUnified, "unified"},      {AttentionKind::kSharedKeyValue, "shared_kv"},
    {AttentionKind::kMerged, "merged"},        {AttentionKind::kLowRank, "low_rank"},
    {AttentionKind::kSymmetric, "symmetric"},  {AttentionKind::kGaussian, "gaussian"},
    {AttentionKind::kPositional, "positional"}};

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

// What stands in the way of a LayerNorm on queries and keys.
std::string_view WhyNotNormalised(AttentionKind kind) {
  if (nn::ValuesAreKeys(kind)) return "its keys are its values too";
  if (nn::IsPositional(kind)) return "its scores do not come from tokens";
  return "its queries and keys are one matrix: neither is there to be normalised";
}

void ValidateAttention(const nn::BlockConfig& block) {
  const nn::AttentionConfig& c = block.attention;
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
  Require(!c.qk_norm || nn::AllowsQueryKeyNorm(kind), "config: {} attention with a LayerNorm on queries and keys: {}",
          Name(kind), c.qk_norm ? WhyNotNormalised(kind) : "");
}

// What all heads together make of a token, and how long the products of their scores are.
struct Widths {
  double projected, scored;
};

Widths AttentionWidths(const nn::BlockConfig& block) {
  const nn::AttentionConfig& c = block.attention;
  const double H = c.heads, Hr = H * c.query_width(), HE = H * c.head_width, HD = H * block.width;
  switch (c.kind) {
    case AttentionKind::kSeparate:
    case AttentionKind::kLowRank:
      return {2 * Hr + HE, Hr};
    case AttentionKind::kShared:
    case AttentionKind::kSharedKeyValue:
    case AttentionKind::kSymmetric:
      return {Hr + HE, Hr};
    case AttentionKind::kUnified:
      return {HE, HE};
    case AttentionKind::kMerged:
      return {HD + HE, HD};
    case AttentionKind::kGaussian:
      return {HE, H * nn::kGaussianFeatures};
    case AttentionKind::kPositional:
      return {HE, Hr};
  }
  return {};
}

}  // namespace

void RequireRange(std::string_view name, int64_t value, int64_t low, int64_t high) {
  Require(value >= low && value <= high, "config: {} is {}, expected {} to {}", name, value, low, high);
}

std::string_view Name(AttentionKind kind) { return NameIn(kAttentionKinds, kind); }
std::optional<AttentionKind> FindAttentionKind(std::string_view name) {
  return FindIn<AttentionKind>(kAttentionKinds, name);
}
std::string_view Name(Activation activation) { return NameIn(kActivations, activation); }
std::optional<Activation> FindActivation(std::string_view name) {
  const auto found = FindIn<Activation>(kActivations, name);
  return found == Activation::kNone ? std::nullopt : found;  // no library has an MLP without one
}

int64_t HiddenWidth(int64_t width, double ratio) {
  const double hidden = static_cast<double>(width) * ratio;
  return hidden >= 0 && hidden <= kMaxExtent ? static_cast<int64_t>(hidden) : 0;
}

void Validate(const nn::BlockConfig& c) {
  RequireRange("the width", c.width, 1, kMaxExtent);
  RequireRange("the number of heads", c.attention.heads, 1, kMaxExtent);
  RequireRange("the head width", c.attention.head_width, 1, kMaxExtent);
  RequireRange("the MLP's hidden width", c.mlp.width, 1, kMaxExtent);
  Require(c.eps >= 0 && c.eps < 1, "config: LayerNorm's eps is {}, expected 0 to 1", c.eps);
  ValidateAttention(c);
}

double Flops(const nn::BlockConfig& c, double N) {
  const double D = static_cast<double>(c.width), M = static_cast<double>(c.mlp.width);
  const double HE = static_cast<double>(c.attention.joined_width());
  const auto [projected, scored] = AttentionWidths(c);
  const double projections = D * projected + (c.attention.projection ? HE * D : 0);
  const double mlp = (c.mlp.gate == simd::Gate::kNone ? 2 : 3) * D * M;
  return 2 * (N * (projections + mlp) + N * N * (scored + HE));
}

double ProjectedWidth(const nn::BlockConfig& c) { return AttentionWidths(c).projected; }

}  // namespace qkv::model
