#include "qkv/model/config/vit_config.h"

#include <utility>

#include "qkv/core/error.h"
#include "qkv/core/name_table.h"

namespace qkv::model {
namespace {

constexpr int64_t kMaxChannels = 1 << 10;

// If a pool has several names, Name returns the first.
constexpr std::pair<Pool, std::string_view> kPools[] = {{Pool::kToken, "token"}, {Pool::kMean, "avg"},
                                                        {Pool::kMax, "max"},     {Pool::kMeanMax, "avgmax"},
                                                        {Pool::kMap, "map"},     {Pool::kTokenAndMean, "token+avg"}};

constexpr std::pair<PatchRotary, std::string_view> kPatchRotary[] = {
    {PatchRotary::kNone, "none"}, {PatchRotary::kPatches, "patches"}, {PatchRotary::kNormalised, "normalised"}};

}  // namespace

std::string_view Name(Pool pool) { return FindName(kPools, pool); }
std::optional<Pool> FindPool(std::string_view name) { return FindIn<Pool>(kPools, name); }

std::string_view Name(PatchRotary rotary) { return FindName(kPatchRotary, rotary); }
std::optional<PatchRotary> FindPatchRotary(std::string_view name) { return FindIn<PatchRotary>(kPatchRotary, name); }

nn::RotaryTable MakeRotaryTable(const VitConfig& c, int64_t grid_height, int64_t grid_width) {
  const nn::TokenGrid grid{c.prefix(), grid_height, grid_width};
  const int64_t E = c.block.attention.query_width();
  const bool normalised = c.rotary == PatchRotary::kNormalised;
  const double base = c.rotary_base > 0 ? c.rotary_base : normalised ? 100 : nn::kUsualRotaryBase;
  if (normalised) return nn::RotaryTable(nn::NormalisedAngles(grid, E, base));
  const bool own = c.rotary_grid_height > 0;
  return nn::RotaryTable(nn::PatchAngles(grid, E,
                                         {.base = base,
                                          .trained_height = own ? c.rotary_grid_height : c.grid_height(),
                                          .trained_width = own ? c.rotary_grid_width : c.grid_width()}));
}

void Validate(const VitConfig& c) {
  RequireRange("the image height", c.image_height, 1, kMaxExtent);
  RequireRange("the image width", c.image_width, 1, kMaxExtent);
  RequireRange("the patch height", c.patch_height, 1, c.image_height);
  RequireRange("the patch width", c.patch_width, 1, c.image_width);
  RequireRange("the number of channels", c.channels, 1, kMaxChannels);
  RequireRange("the number of patches", c.patches(), 1, kMaxExtent);
  Validate(c.block);
  Require(!c.block.cross, "config: a Vision Transformer has no source for cross-attention");
  RequireRange("the depth", c.depth, 0, kMaxDepth);
  RequireRange("the number of register tokens", c.registers, 0, kMaxExtent);
  RequireRange("the number of classes", c.classes, 0, kMaxClasses);
  RequireRange("the pooler's width", c.pooler_width, 0, kMaxExtent);
  RequireRange("the projection's width", c.projection_width, 0, kMaxExtent);
  Require(c.patch_features() <= 1 << 24, "config: patches of {}x{} pixels with {} channels are too large",
          c.patch_height, c.patch_width, c.channels);
  const bool needs_token = c.pool == Pool::kToken || c.pool == Pool::kTokenAndMean;
  Require(!needs_token || c.prefix() > 0, "config: pooling by the class token, but there is none");
  Require(!c.distillation_head || c.distillation_token, "config: a distillation head without a distillation token");
  Require(c.positions != Positions::kSinCos || (c.block.width % 4 == 0 && c.block.width >= 8),
          "config: sine and cosine positions need a width that is a multiple of 4 and at least 8, got {}",
          c.block.width);
  if (c.rotary == PatchRotary::kNone) return;
  const nn::AttentionConfig& attention = c.block.attention;
  Require(nn::AllowsRotary(attention.kind) && attention.query_width() % 4 == 0,
          "config: rotary positions of patches need queries and keys of tokens, of a multiple of 4 features in a head; "
          "got {} attention and {}",
          Name(attention.kind), attention.query_width());
  Require(c.rotary_base == 0 || (c.rotary_base >= 1 && c.rotary_base <= 1e12),
          "config: the base of rotary positions is {}, expected 1 to 1e12", c.rotary_base);
  RequireRange("the height of the rotary grid", c.rotary_grid_height, 0, kMaxExtent);
  RequireRange("the width of the rotary grid", c.rotary_grid_width, c.rotary_grid_height > 0 ? 1 : 0, kMaxExtent);
}

double Flops(const VitConfig& c) { return Flops(c, c.image_height, c.image_width); }

double Flops(const VitConfig& c, int64_t height, int64_t width) {
  const double patches = static_cast<double>(height / c.patch_height) * static_cast<double>(width / c.patch_width);
  const double embedding = 2 * patches * static_cast<double>(c.patch_features()) * static_cast<double>(c.block.width);
  const double head = 2 * static_cast<double>(c.pooled_width()) * static_cast<double>(c.classes);
  const double projection = 2 * static_cast<double>(c.projection_input()) * static_cast<double>(c.projection_width);
  return embedding + static_cast<double>(c.depth) * Flops(c.block, patches + static_cast<double>(c.prefix())) +
         projection + head * (c.distillation_head ? 2 : 1);
}

}  // namespace qkv::model
