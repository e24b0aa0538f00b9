// What a Vision Transformer is, in one structure for all families: everything that decides its tensors' shapes and its
// arithmetic. Not here: how each library writes it down (families/).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "qkv/model/config/block_config.h"
#include "qkv/nn/rotary.h"

namespace qkv::model {

/// The library whose files a model has; families/ has a row, or several, for each.
enum class Family { kTimm, kHuggingFace, kVitPytorch };

/// "timm", "Hugging Face", "vit-pytorch"; families/families.cc has the names.
std::string_view Name(Family family);

enum class Positions {
  kNone,
  kLearned,  // a tensor in the checkpoint
  kSinCos,   // computed (SimpleViT)
};

/// Rotary positions of patches, in every block; tokens before the patches are not rotated. See nn/rotary.h.
enum class PatchRotary {
  kNone,
  kPatches,     // nn::PatchAngles, scaled to the trained grid
  kNormalised,  // nn::NormalisedAngles
};
/// "none", "patches", "normalised"
std::string_view Name(PatchRotary rotary);
std::optional<PatchRotary> FindPatchRotary(std::string_view name);

/// How learned positions are brought to another grid.
enum class Interpolation {
  kNone,              // the family's own library has none: another size is refused
  kBicubic,           // a = −0.75, border repeated
  kBicubicAntialias,  // a = −0.5, widened when shrinking, renormalised at the border
  kBilinear,
  kBilinearAligned,  // corner on corner
};

enum class Pool { kToken, kMean, kMax, kMeanMax, kMap, kTokenAndMean };

/// timm's names: "token", "avg", "max", "avgmax", "map"; and "token+avg", which timm has not.
std::string_view Name(Pool pool);
std::optional<Pool> FindPool(std::string_view name);

/// More than any data set has. Labels are stored by class, so that a few bytes must not ask for many.
inline constexpr int64_t kMaxClasses = 1 << 20;

struct VitConfig {
  Family family = Family::kTimm;
  std::string architecture;  // the registry's or the class's name

  int64_t image_height = 224, image_width = 224;
  int64_t patch_height = 16, patch_width = 16;
  int64_t channels = 3;
  nn::BlockConfig block;
  int64_t depth = 12;  // L, blocks

  bool patch_bias = true;
  bool patch_norms = false;  // vit-pytorch: LayerNorm before and after, channel-last patches

  // Tokens before the patches, in this order.
  bool class_token = true, distillation_token = false;
  int64_t registers = 0;

  Positions positions = Positions::kLearned;
  int64_t position_prefix = 1;  // of the tokens before the patches, how many (from the first) have a position
  Interpolation interpolation = Interpolation::kBicubicAntialias;
  PatchRotary rotary = PatchRotary::kNone;
  double rotary_base = 100;
  bool square_positions = false;  // interpolation takes the trained grid for a square one, whatever it is
  // At other sizes than the trained one: pixels beyond the last whole patch are left out, not refused.
  bool crops_to_patches = false;

  bool pre_norm = false, final_norm = true, fc_norm = false;

  Pool pool = Pool::kToken;
  bool pool_prefix = false;   // mean, max and map look at all tokens, not at the patches only
  int64_t map_mlp_width = 0;  // hidden width of attention pooling's MLP
  int64_t pooler_width = 0;   // Hugging Face's pooler, a dense layer on the class token; 0: none
  simd::Activation pooler_activation = simd::Activation::kTanh;

  bool head_norm = false;          // vit-pytorch's older LayerNorm before the classifier
  int64_t classes = 0;             // 0: no classifier, the pooled vector is the answer
  bool distillation_head = false;  // a second classifier on the distillation token; the answer is the mean
  // Without a classifier, a model with a distillation token answers with the mean of its two tokens, not with the
  // class token alone.
  bool distillation_mean = true;

  /// Whether the answer is the mean of what class token and distillation token give.
  bool averages_two_tokens() const {
    return distillation_head || (distillation_mean && distillation_token && classes == 0);
  }
  int64_t prefix() const { return class_token + distillation_token + registers; }
  int64_t grid_height() const { return image_height / patch_height; }
  int64_t grid_width() const { return image_width / patch_width; }
  int64_t patches() const { return grid_height() * grid_width(); }
  nn::TokenGrid grid() const { return {prefix(), grid_height(), grid_width()}; }
  int64_t tokens() const { return prefix() + patches(); }
  int64_t patch_features() const { return channels * patch_height * patch_width; }
  /// Length of the vector that the classifier sees.
  int64_t pooled_width() const {
    return pool == Pool::kTokenAndMean ? 2 * block.width : pooler_width > 0 ? pooler_width : block.width;
  }
  /// Last axis of "logits".
  int64_t outputs() const { return classes > 0 ? classes : pooled_width(); }
};

/// Throws Error when a number is out of all proportion or two of them contradict each other.
void Validate(const VitConfig& config);

/// Writes what no library but qkv has a word for into a model's config.json, the same keys in every family:
/// "qkv_attention" and "qkv_attention_rank", "qkv_rotary" and "qkv_rotary_base". Removes what is the usual. Json: of
/// nlohmann, ordered or not.
template <typename Json>
void SetOwnKeys(const VitConfig& config, Json* json) {
  const nn::AttentionConfig& attention = config.block.attention;
  for (const char* key : {"qkv_attention", "qkv_attention_rank", "qkv_rotary", "qkv_rotary_base"}) json->erase(key);
  if (attention.kind != nn::AttentionKind::kSeparate) (*json)["qkv_attention"] = Name(attention.kind);
  if (attention.qk_width > 0) (*json)["qkv_attention_rank"] = attention.qk_width;
  if (config.rotary == PatchRotary::kNone) return;
  (*json)["qkv_rotary"] = Name(config.rotary), (*json)["qkv_rotary_base"] = config.rotary_base;
}

/// The rotation of tokens on a grid of this size; the configuration must have rotary positions.
nn::RotaryTable MakeRotaryTable(const VitConfig& config, int64_t grid_height, int64_t grid_width);

/// Multiply-adds (counted twice) of one image of the trained size, or of another one.
double Flops(const VitConfig& config);
double Flops(const VitConfig& config, int64_t height, int64_t width);

}  // namespace qkv::model
