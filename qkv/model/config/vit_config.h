// Configuration of a Vision Transformer, one structure for all families: everything that determines its tensor shapes
// and its arithmetic. Not here: how each library writes it (families/).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/model/config/block_config.h"
#include "qkv/nn/rotary.h"

namespace qkv::model {

/// The library that a model's files belong to; families/ has one or more rows for each.
enum class Family { kTimm, kHuggingFace, kVitPytorch, kOpenClip };

/// "timm", "Hugging Face", "vit-pytorch", "open_clip"; families/families.cc has the names.
std::string_view Name(Family family);

enum class Positions {
  kNone,
  kLearned,  // a tensor in the checkpoint
  kSinCos,   // computed (SimpleViT)
};

/// Rotary positions of patches, in every block; prefix tokens are not rotated. See nn/rotary.h.
enum class PatchRotary {
  kNone,
  kPatches,     // nn::PatchAngles, scaled to the trained grid
  kNormalised,  // nn::NormalisedAngles
  kMixed,       // nn::MixedAngles, with frequencies of each block and head in the checkpoint
};
/// "none", "patches", "normalised", "mixed"
std::string_view Name(PatchRotary rotary);
std::optional<PatchRotary> FindPatchRotary(std::string_view name);

/// How learned positions are resampled to another grid.
enum class Interpolation {
  kNone,              // not in the family's own library: other sizes are rejected
  kBicubic,           // a = −0.75, border replicated
  kBicubicAntialias,  // a = −0.5, widened when shrinking, renormalised at the border
  kBilinear,
  kBilinearAligned,  // corners aligned
};

/// How biases by relative position are resampled to another grid.
enum class BiasInterpolation {
  kBilinear,   // Hugging Face
  kGeometric,  // timm: linear between points whose distances grow geometrically from the centre
};

enum class Pool { kToken, kMean, kMax, kMeanMax, kMap, kTokenAndMean };

/// timm's names: "token", "avg", "max", "avgmax", "map"; and "token+avg", which timm lacks.
std::string_view Name(Pool pool);
std::optional<Pool> FindPool(std::string_view name);

/// More classes than any data set has. Labels are stored per class, so a small file must not claim a huge number.
inline constexpr int64_t kMaxClasses = 1 << 20;
/// Limit of doublings of the grid of masks, beyond which they would be finer than the pixels of usual patches.
inline constexpr int64_t kMaxDoublings = 4;

/// How logits of classes become scores: shares that sum to one; each by itself, if an image may be of several classes
/// or there is only one; or unchanged, if they are numbers that the model predicts.
enum class ClassScores { kSoftmax, kSigmoid, kNone };

/// What the heads of a model give: exactly one of these.
enum class HeadKind { kVector, kClasses, kBoxes, kMasks };

/// One kind of prefix tokens.
struct PrefixTokens {
  const char* tensor;     // "reg_token", timm's name
  std::string_view name;  // "register", of one token
  int64_t count;
  bool numbered = true;  // "register 0"; otherwise there is one at most
};

struct VitConfig {
  Family family = Family::kTimm;
  std::string architecture;  // name in timm's registry, or class name

  int64_t image_height = 224, image_width = 224;
  int64_t patch_height = 16, patch_width = 16;
  int64_t channels = 3;
  nn::BlockConfig block;
  int64_t depth = 12;  // L, blocks

  bool patch_bias = true;
  bool patch_norms = false;  // vit-pytorch: LayerNorm before and after, channel-last patches
  bool embed_norm = false;   // AIMv2: a norm after the patch projection, before positions are added

  // Prefix tokens, which precede the patches in this order.
  bool class_token = true, distillation_token = false;
  int64_t registers = 0;
  // Tokens that each become one box (YOLOS). Files have their positions behind those of the patches.
  int64_t detection_tokens = 0;
  // Tokens that each become one mask (EoMT), behind all other prefix tokens. They enter before the last query_blocks
  // blocks; until then they wait: no token attends to them, and they do not change.
  int64_t query_tokens = 0, query_blocks = 0;

  Positions positions = Positions::kLearned;
  int64_t position_prefix = 1;  // how many prefix tokens, from the first, have a position
  Interpolation interpolation = Interpolation::kBicubicAntialias;
  bool block_positions = false;  // learned positions of all tokens are added again after each block but the last
  PatchRotary rotary = PatchRotary::kNone;
  double rotary_base = 0;  // 0: 10,000 for kPatches, 100 for kNormalised
  // The grid that kPatches scales coordinates to, if it does; 0: that of the image size.
  bool rotary_scales = true;
  int64_t rotary_grid_height = 0, rotary_grid_width = 0;
  double rotary_offset = 0;           // kPatches: added to rows and columns
  bool rotary_columns_first = false;  // kPatches, kMixed: the column is the first coordinate
  // The file pairs features i and i + E/2 of a head; binding makes them neighbours (nn::HalfSplitToNeighbours).
  bool rotary_halves = false;
  // Biases of the scores by relative position, of one class token and the patches (BEiT): a table for each block
  // (block.attention.bias_rows), one for all blocks, or both, which add up.
  bool shared_biases = false;
  BiasInterpolation bias_interpolation = BiasInterpolation::kBilinear;
  bool square_positions = false;  // interpolation treats the trained grid as square, whatever its shape
  // For other sizes than the trained one: pixels beyond the last whole patch are ignored, not rejected.
  bool crops_to_patches = false;

  bool pre_norm = false, final_norm = true, fc_norm = false;

  Pool pool = Pool::kToken;
  bool pool_prefix = false;   // mean, max and map read all tokens, not only the patches
  int64_t map_mlp_width = 0;  // hidden width of attention pooling's MLP
  int64_t map_heads = 0;      // of attention pooling; 0: as many as in the blocks
  int64_t pooler_width = 0;   // Hugging Face's pooler, a dense layer on the class token; 0: none
  simd::Activation pooler_activation = simd::Activation::kTanh;
  // The last layer before the output: a linear layer of the pooled vector, after fc_norm, into the space that images
  // share with texts (CLIP); 0: none.
  int64_t projection_width = 0;
  bool projection_bias = false;

  bool head_norm = false;  // vit-pytorch's older LayerNorm before the classifier
  ClassScores scores = ClassScores::kSoftmax;
  int64_t classes = 0;             // 0: no classifier; the output is the pooled vector
  bool distillation_head = false;  // a second classifier on the distillation token; the output is the mean of both
  // Classes of the heads that read the detection tokens, without "no object"; 0: there are no such heads.
  int64_t detection_classes = 0;
  // Classes of the heads that read the query tokens, without "no object"; 0: there are no such heads.
  int64_t mask_classes = 0;
  int64_t mask_doublings = 0;  // how often the grid of patches is doubled to that of the masks, at most kMaxDoublings
  simd::Activation mask_activation = simd::Activation::kGelu;  // in these heads
  // Without a classifier, a model with a distillation token outputs the mean of its two tokens, not the class token.
  bool distillation_mean = true;

  /// True if the output is the mean of results for class token and distillation token.
  bool averages_two_tokens() const {
    return distillation_head || (distillation_mean && distillation_token && classes == 0);
  }
  /// Whether scores are x_i M x_jᵀ of one matrix M, with terms of one token and biases by position: neither a norm nor
  /// a rotation stands between projections and their product, and a head has one of them.
  bool scores_are_bilinear() const {
    return !block.attention.qk_norm && rotary == PatchRotary::kNone && block.attention.maps() == 1;
  }
  bool has_relative_biases() const { return shared_biases || block.attention.bias_rows > 0; }
  /// Rows of a table of biases: one for each offset between two patches, and those of the class token.
  int64_t relative_bias_rows() const { return (2 * grid_height() - 1) * (2 * grid_width() - 1) + 3; }
  /// Tables that differ between blocks, or the one of all blocks; 0 without biases.
  int64_t relative_bias_tables() const { return block.attention.bias_rows > 0 ? depth : shared_biases ? 1 : 0; }
  int64_t pool_heads() const { return map_heads > 0 ? map_heads : block.attention.heads; }
  /// All kinds of prefix tokens, in the order of their places; a count is 0 if the model has none of them.
  std::array<PrefixTokens, 5> prefix_tokens() const {
    return {{{"cls_token", "class", class_token, false},
             {"dist_token", "distillation", distillation_token, false},
             {"reg_token", "register", registers},
             {"det_token", "detection", detection_tokens},
             {"query_token", "mask", query_tokens}}};
  }
  int64_t prefix() const { return class_token + distillation_token + registers + detection_tokens + query_tokens; }
  /// Index of the first detection token.
  int64_t detection_begin() const { return query_begin() - detection_tokens; }
  /// Index of the first query token.
  int64_t query_begin() const { return prefix() - query_tokens; }
  /// Whether the query tokens are not yet among the tokens of this block.
  bool queries_wait(int64_t index) const { return query_tokens > 0 && index < depth - query_blocks; }
  /// Side of a mask in pixels of its own, for a side of a grid of patches.
  int64_t mask_side(int64_t patches_of_side) const { return patches_of_side << mask_doublings; }
  /// Tables of positions that are added after blocks.
  int64_t position_blocks() const { return block_positions && depth > 1 ? depth - 1 : 0; }
  int64_t grid_height() const { return image_height / patch_height; }
  int64_t grid_width() const { return image_width / patch_width; }
  int64_t patches() const { return grid_height() * grid_width(); }
  nn::TokenGrid grid() const { return {prefix(), grid_height(), grid_width()}; }
  int64_t tokens() const { return prefix() + patches(); }
  int64_t patch_features() const { return channels * patch_height * patch_width; }
  /// Length of the vector that the classifier reads.
  int64_t pooled_width() const { return projection_width > 0 ? projection_width : projection_input(); }
  /// Length of the vector that the projection reads, if there is one.
  int64_t projection_input() const {
    return pool == Pool::kTokenAndMean ? 2 * block.width : pooler_width > 0 ? pooler_width : block.width;
  }
  HeadKind heads() const {
    return detection_classes > 0 ? HeadKind::kBoxes
           : mask_classes > 0    ? HeadKind::kMasks
           : classes > 0         ? HeadKind::kClasses
                                 : HeadKind::kVector;
  }
  /// Classes that have names: of images, of objects, or of masks.
  int64_t named_classes() const { return classes > 0 ? classes : std::max(detection_classes, mask_classes); }
  /// Last axis of "logits".
  int64_t outputs() const { return classes > 0 ? classes : pooled_width(); }
};

/// Throws Error if a number is out of range or two of them contradict each other.
void Validate(const VitConfig& config);

/// Names the first part of a model that only inference has, with the reason, as the end of a sentence: "its query
/// tokens enter late, which only inference computes". Empty if training has them all.
std::string OnlyInInference(const VitConfig& config);

/// The configuration in blocks in which the query tokens wait.
inline VitConfig WithoutQueries(VitConfig config) {
  config.query_tokens = config.query_blocks = config.mask_classes = 0;
  return config;
}

/// Keys of config.json that are qkv's own, the same in every family.
inline constexpr std::string_view kOwnKeys[] = {"qkv_attention",     "qkv_attention_rank",      "qkv_rotary",
                                                "qkv_rotary_base",   "qkv_rotary_grid",         "qkv_rotary_scales",
                                                "qkv_rotary_offset", "qkv_rotary_columns_first"};

/// Writes qkv's own keys into a model's config.json. Removes keys whose value is the default. Json: of nlohmann,
/// ordered or not.
template <typename Json>
void SetOwnKeys(const VitConfig& config, Json* json) {
  const nn::AttentionConfig& attention = config.block.attention;
  for (const std::string_view key : kOwnKeys) json->erase(std::string(key));
  if (attention.kind != nn::AttentionKind::kSeparate) (*json)["qkv_attention"] = Name(attention.kind);
  if (attention.qk_width > 0) (*json)["qkv_attention_rank"] = attention.qk_width;
  if (config.rotary == PatchRotary::kNone) return;
  (*json)["qkv_rotary"] = Name(config.rotary);
  if (config.rotary_base > 0) (*json)["qkv_rotary_base"] = config.rotary_base;
  if (config.rotary_grid_height > 0) (*json)["qkv_rotary_grid"] = {config.rotary_grid_height, config.rotary_grid_width};
  if (!config.rotary_scales) (*json)["qkv_rotary_scales"] = false;
  if (config.rotary_offset != 0) (*json)["qkv_rotary_offset"] = config.rotary_offset;
  if (config.rotary_columns_first) (*json)["qkv_rotary_columns_first"] = true;
}

/// Angles of the tokens on a grid of this size. Throws Error for kMixed, whose frequencies are weights.
nn::RotaryTable MakeRotaryTable(const VitConfig& config, int64_t grid_height, int64_t grid_width);

/// The tables of a grid: one for all blocks; for kMixed one for each block, from its frequencies [2, depth, H, E / 2].
template <typename T>
std::vector<nn::RotaryTable> MakeRotaryTables(const VitConfig& config, int64_t grid_height, int64_t grid_width,
                                              const Tensor<T>& frequencies);
/// Their memory in bytes, for this many tokens; 0 without rotary positions.
double RotaryBytes(const VitConfig& config, int64_t tokens);

}  // namespace qkv::model
