#include "qkv/model/vit_config.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "qkv/core/error.h"

namespace qkv::model {
namespace {

// No published ViT comes near; a configuration beyond is a mistake or an attack, and products of these still fit.
constexpr int64_t kMaxExtent = 1 << 20, kMaxDepth = 1 << 12, kMaxChannels = 1 << 10;

// Of several names for one thing, the one that Name gives comes first.
constexpr std::pair<Pool, std::string_view> kPools[] = {{Pool::kToken, "token"}, {Pool::kMean, "avg"},
                                                        {Pool::kMax, "max"},     {Pool::kMeanMax, "avgmax"},
                                                        {Pool::kMap, "map"},     {Pool::kTokenAndMean, "token+avg"}};

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

template <typename Rows, typename T>
std::string_view NameIn(const Rows& rows, T value) {
  return std::find_if(std::begin(rows), std::end(rows), [&](const auto& row) { return row.first == value; })->second;
}

template <typename T, typename Rows>
std::optional<T> FindIn(const Rows& rows, std::string_view name) {
  const auto row = std::find_if(std::begin(rows), std::end(rows), [&](const auto& r) { return r.second == name; });
  return row == std::end(rows) ? std::nullopt : std::optional<T>(row->first);
}

void RequireRange(std::string_view name, int64_t value, int64_t low, int64_t high) {
  Require(value >= low && value <= high, "config: {} is {}, expected {} to {}", name, value, low, high);
}

// What stands in the way of a LayerNorm on queries and keys.
std::string_view WhyNotNormalised(AttentionKind kind) {
  if (nn::ValuesAreKeys(kind)) return "its keys are its values too";
  if (nn::IsPositional(kind)) return "its scores do not come from tokens";
  return "its queries and keys are one matrix: neither is there to be normalised";
}

void ValidateAttention(const VitConfig& c) {
  Require(c.heads * c.head_width <= kMaxExtent, "config: {} heads of {} features are too wide", c.heads, c.head_width);
  const AttentionKind kind = c.attention;
  if (kind == AttentionKind::kLowRank || kind == AttentionKind::kSymmetric) {
    RequireRange(fmt::format("the rank of {} attention", Name(kind)), c.qk_width, 1, c.width);
  } else if (kind == AttentionKind::kPositional) {
    RequireRange("the rank of positional attention", c.qk_width, 0, kMaxExtent);
  } else {
    Require(c.qk_width == 0, "config: {} attention has no rank of its own, got {}", Name(kind), c.qk_width);
  }
  Require(c.heads * c.query_width() <= kMaxExtent, "config: {} heads of rank {} are too wide", c.heads, c.qk_width);
  Require(!c.qk_norm || nn::AllowsQueryKeyNorm(kind), "config: {} attention with a LayerNorm on queries and keys: {}",
          Name(kind), c.qk_norm ? WhyNotNormalised(kind) : "");
}

}  // namespace

std::string_view Name(Family family) {
  switch (family) {
    case Family::kTimm:
      return "timm";
    case Family::kHuggingFace:
      return "Hugging Face";
    case Family::kVitPytorch:
      return "vit-pytorch";
  }
  return "";
}

std::string_view Name(Pool pool) { return NameIn(kPools, pool); }
std::optional<Pool> FindPool(std::string_view name) { return FindIn<Pool>(kPools, name); }
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

void Validate(const VitConfig& c) {
  RequireRange("the image height", c.image_height, 1, kMaxExtent);
  RequireRange("the image width", c.image_width, 1, kMaxExtent);
  RequireRange("the patch height", c.patch_height, 1, c.image_height);
  RequireRange("the patch width", c.patch_width, 1, c.image_width);
  RequireRange("the number of channels", c.channels, 1, kMaxChannels);
  RequireRange("the number of patches", c.patches(), 1, kMaxExtent);
  RequireRange("the width", c.width, 1, kMaxExtent);
  RequireRange("the depth", c.depth, 0, kMaxDepth);
  RequireRange("the number of heads", c.heads, 1, kMaxExtent);
  RequireRange("the head width", c.head_width, 1, kMaxExtent);
  RequireRange("the MLP's hidden width", c.mlp_width, 1, kMaxExtent);
  RequireRange("the number of register tokens", c.registers, 0, kMaxExtent);
  RequireRange("the number of classes", c.classes, 0, kMaxClasses);
  RequireRange("the pooler's width", c.pooler_width, 0, kMaxExtent);
  Require(c.eps >= 0 && c.eps < 1, "config: LayerNorm's eps is {}, expected 0 to 1", c.eps);
  ValidateAttention(c);
  Require(c.patch_features() <= 1 << 24, "config: patches of {}x{} pixels with {} channels are too large",
          c.patch_height, c.patch_width, c.channels);
  const bool needs_token = c.pool == Pool::kToken || c.pool == Pool::kTokenAndMean;
  Require(!needs_token || c.prefix() > 0, "config: pooling by the class token, but there is none");
  Require(!c.distillation_head || c.distillation_token, "config: a distillation head without a distillation token");
  Require(c.positions != Positions::kSinCos || (c.width % 4 == 0 && c.width >= 8),
          "config: sine and cosine positions need a width that is a multiple of 4 and at least 8, got {}", c.width);
}

namespace {

// What all heads together make of a token, and how long the products of their scores are.
struct Widths {
  double projected, scored;
};

Widths AttentionWidths(const VitConfig& c) {
  const double H = c.heads, Hr = H * c.query_width(), HE = H * c.head_width, HD = H * c.width;
  switch (c.attention) {
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

double ProjectedWidth(const VitConfig& c) { return AttentionWidths(c).projected; }

double Flops(const VitConfig& c) { return Flops(c, c.image_height, c.image_width); }

double Flops(const VitConfig& c, int64_t height, int64_t width) {
  const double of_patches = static_cast<double>(height / c.patch_height) * static_cast<double>(width / c.patch_width);
  const double N = of_patches + static_cast<double>(c.prefix()), D = c.width, M = c.mlp_width;
  const double HE = c.heads * c.head_width;
  const auto [projected, scored] = AttentionWidths(c);
  const double projections = D * projected + (c.projection ? HE * D : 0);
  const double mlp = (c.gate == simd::Gate::kNone ? 2 : 3) * D * M;
  const double block = N * (projections + mlp) + N * N * (scored + HE);
  const double patches = of_patches * c.patch_features() * D;
  const double head = static_cast<double>(c.pooled_width()) * c.classes * (c.distillation_head ? 2 : 1);
  return 2 * (patches + c.depth * block + head);
}

}  // namespace qkv::model
