#include "qkv/model/config/vit_config.h"

#include <algorithm>
#include <cmath>
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

constexpr std::pair<PatchRotary, std::string_view> kPatchRotary[] = {{PatchRotary::kNone, "none"},
                                                                     {PatchRotary::kPatches, "patches"},
                                                                     {PatchRotary::kNormalised, "normalised"},
                                                                     {PatchRotary::kMixed, "mixed"}};

void ValidateQueries(const VitConfig& c) {
  RequireRange("the number of query tokens", c.query_tokens, 0, kMaxExtent);
  RequireRange("the doublings of the grid of masks", c.mask_doublings, 0, kMaxDoublings);
  Require(c.mask_classes == 0 || c.query_tokens > 0, "config: heads of masks without query tokens");
  if (c.query_tokens == 0) return;
  RequireRange("the number of blocks with query tokens", c.query_blocks, 1, c.depth);
  Require(!nn::IsPositional(c.block.attention.kind), "config: query tokens with {} attention, which has no queries",
          Name(c.block.attention.kind));
  Require(!c.block_positions && !c.pre_norm, "config: query tokens with positions after blocks, or a norm before them");
}

}  // namespace

std::string_view Name(Pool pool) { return FindName(kPools, pool); }
std::optional<Pool> FindPool(std::string_view name) { return FindIn<Pool>(kPools, name); }

std::string_view Name(PatchRotary rotary) { return FindName(kPatchRotary, rotary); }
std::optional<PatchRotary> FindPatchRotary(std::string_view name) { return FindIn<PatchRotary>(kPatchRotary, name); }

nn::RotaryTable MakeRotaryTable(const VitConfig& c, int64_t grid_height, int64_t grid_width) {
  Require(c.rotary == PatchRotary::kPatches || c.rotary == PatchRotary::kNormalised,
          "rotary positions: frequencies of {} positions are weights of each block; only inference has them",
          Name(c.rotary));
  const nn::TokenGrid grid{c.prefix(), grid_height, grid_width};
  const int64_t E = c.block.attention.score_width();
  const bool normalised = c.rotary == PatchRotary::kNormalised;
  const double base = c.rotary_base > 0 ? c.rotary_base : normalised ? 100 : nn::kUsualRotaryBase;
  if (normalised) return nn::RotaryTable(nn::NormalisedAngles(grid, E, base));
  const bool own = c.rotary_grid_height > 0;
  const int64_t height = own ? c.rotary_grid_height : c.grid_height();
  const int64_t width = own ? c.rotary_grid_width : c.grid_width();
  return nn::RotaryTable(nn::PatchAngles(grid, E,
                                         {.base = base,
                                          .offset = c.rotary_offset,
                                          .trained_height = c.rotary_scales ? height : 0,
                                          .trained_width = c.rotary_scales ? width : 0,
                                          .columns_first = c.rotary_columns_first}));
}

template <typename T>
std::vector<nn::RotaryTable> MakeRotaryTables(const VitConfig& c, int64_t grid_height, int64_t grid_width,
                                              const Tensor<T>& frequencies) {
  std::vector<nn::RotaryTable> tables;
  if (c.rotary == PatchRotary::kNone) return tables;
  if (c.rotary != PatchRotary::kMixed) {
    tables.push_back(MakeRotaryTable(c, grid_height, grid_width));
    return tables;
  }
  const int64_t H = c.block.attention.heads, P = c.block.attention.query_width() / 2;
  nn::MixedAngles angles{nn::PatchIndices({c.prefix(), grid_height, grid_width}, c.rotary_columns_first),
                         Tensor<double>({2, H, P})};
  for (int64_t block = 0; block < c.depth; ++block) {
    for (int64_t axis = 0; axis < 2; ++axis) {
      std::copy_n(frequencies.view().at(axis, block), H * P, angles.frequencies.view().at(axis));
    }
    tables.emplace_back(angles);
  }
  return tables;
}

template std::vector<nn::RotaryTable> MakeRotaryTables(const VitConfig&, int64_t, int64_t, const Tensor<float>&);
template std::vector<nn::RotaryTable> MakeRotaryTables(const VitConfig&, int64_t, int64_t, const Tensor<double>&);

double RotaryBytes(const VitConfig& c, int64_t tokens) {
  if (c.rotary == PatchRotary::kNone) return 0;
  const bool mixed = c.rotary == PatchRotary::kMixed;
  return static_cast<double>(mixed ? c.depth : 1) *
         nn::RotaryTable::Bytes(tokens, c.block.attention.score_width(), mixed ? c.block.attention.heads : 1);
}

std::string OnlyInInference(const VitConfig& c) {
  if (c.detection_tokens > 0) return "its detection tokens have positions in every block, which only inference adds";
  if (c.query_tokens > 0) return "its query tokens enter late, which only inference computes";
  if (c.has_relative_biases()) return "its scores have biases by relative position, which only inference adds";
  if (c.rotary == PatchRotary::kMixed) return "its rotary frequencies differ by head, which only inference has";
  if (c.block.norm_place == nn::NormPlace::kOutput) return "its layers' outputs are normed, which only inference does";
  if (c.block.norm_place == nn::NormPlace::kParallel) {
    return "its MLPs are beside attention, as only inference has them";
  }
  return "";
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
  RequireRange("the number of detection tokens", c.detection_tokens, 0, kMaxExtent);
  RequireRange("the number of classes", c.classes, 0, kMaxClasses);
  RequireRange("the number of classes of objects", c.detection_classes, 0, kMaxClasses);
  RequireRange("the number of classes of masks", c.mask_classes, 0, kMaxClasses);
  Require(c.detection_classes == 0 || c.detection_tokens > 0, "config: heads of detection without detection tokens");
  RequireRange("the pooler's width", c.pooler_width, 0, kMaxExtent);
  RequireRange("the projection's width", c.projection_width, 0, kMaxExtent);
  Require(c.patch_features() <= 1 << 24, "config: patches of {}x{} pixels with {} channels are too large",
          c.patch_height, c.patch_width, c.channels);
  const bool needs_token = c.pool == Pool::kToken || c.pool == Pool::kTokenAndMean;
  Require(!needs_token || c.prefix() > 0, "config: pooling by the class token, but there is none");
  ValidateQueries(c);
  Require(!c.distillation_head || c.distillation_token, "config: a distillation head without a distillation token");
  Require(c.positions != Positions::kSinCos || (c.block.width % 4 == 0 && c.block.width >= 8),
          "config: sine and cosine positions need a width that is a multiple of 4 and at least 8, got {}",
          c.block.width);
  RequireRange("the heads of attention pooling", c.map_heads, 0, kMaxExtent);
  Require(c.pool != Pool::kMap || c.block.width % c.pool_heads() == 0,
          "config: a width of {} is no multiple of attention pooling's {} heads", c.block.width, c.pool_heads());
  const int64_t bias_rows = c.block.attention.bias_rows;
  Require(bias_rows == 0 || bias_rows == c.relative_bias_rows(),
          "config: a table of {} biases by relative position, expected {} for {}x{} patches", bias_rows,
          c.relative_bias_rows(), c.grid_height(), c.grid_width());
  Require(!c.has_relative_biases() || (c.class_token && c.prefix() == 1),
          "config: biases by relative position need a class token and no other token before the patches, got {}",
          c.prefix());
  if (c.rotary == PatchRotary::kNone) return;
  const nn::AttentionConfig& attention = c.block.attention;
  Require(nn::AllowsRotary(attention.kind) && attention.score_width() % 4 == 0,
          "config: rotary positions of patches need queries and keys of tokens, of a multiple of 4 features in a head; "
          "got {} attention and {}",
          Name(attention.kind), attention.score_width());
  Require(c.rotary != PatchRotary::kMixed || attention.maps() == 1,
          "config: differential attention with rotary frequencies that differ by head is not supported");
  Require(c.rotary_base == 0 || (c.rotary_base >= 1 && c.rotary_base <= 1e12),
          "config: the base of rotary positions is {}, expected 1 to 1e12", c.rotary_base);
  Require(std::abs(c.rotary_offset) <= kMaxExtent, "config: the offset of rotary positions is {}, expected {} at most",
          c.rotary_offset, kMaxExtent);
  Require(!c.rotary_halves || attention.kind == nn::AttentionKind::kSeparate,
          "config: half-split rotary positions need separate queries and keys, got {} attention", Name(attention.kind));
  RequireRange("the height of the rotary grid", c.rotary_grid_height, 0, kMaxExtent);
  RequireRange("the width of the rotary grid", c.rotary_grid_width, c.rotary_grid_height > 0 ? 1 : 0, kMaxExtent);
}

}  // namespace qkv::model
