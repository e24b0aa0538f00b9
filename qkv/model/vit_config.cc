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
  RequireRange("the number of classes", c.classes, 0, int64_t{1} << 24);
  RequireRange("the pooler's width", c.pooler_width, 0, kMaxExtent);
  Require(c.eps >= 0 && c.eps < 1, "config: LayerNorm's eps is {}, expected 0 to 1", c.eps);
  Require(c.heads * c.head_width <= kMaxExtent, "config: {} heads of {} features are too wide", c.heads, c.head_width);
  Require(c.patch_features() <= 1 << 24, "config: patches of {}x{} pixels with {} channels are too large",
          c.patch_height, c.patch_width, c.channels);
  const bool needs_token = c.pool == Pool::kToken || c.pool == Pool::kTokenAndMean;
  Require(!needs_token || c.prefix() > 0, "config: pooling by the class token, but there is none");
  Require(!c.distillation_head || c.distillation_token, "config: a distillation head without a distillation token");
  Require(c.positions != Positions::kSinCos || (c.width % 4 == 0 && c.width >= 8),
          "config: sine and cosine positions need a width that is a multiple of 4 and at least 8, got {}", c.width);
}

double Flops(const VitConfig& c) {
  const double N = c.tokens(), D = c.width, HE = c.heads * c.head_width, M = c.mlp_width;
  const double projections = 3 * D * HE + (c.projection ? HE * D : 0);
  const double mlp = (c.gate == simd::Gate::kNone ? 2 : 3) * D * M;
  const double block = N * (projections + mlp) + 2 * N * N * HE;
  const double patches = static_cast<double>(c.patches()) * c.patch_features() * D;
  const double head = static_cast<double>(c.pooled_width()) * c.classes * (c.distillation_head ? 2 : 1);
  return 2 * (patches + c.depth * block + head);
}

}  // namespace qkv::model
