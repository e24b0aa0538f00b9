// The result of translating a model's configuration files to another library, and obstacles to it. Not here: the
// translations, which are the families'.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "qkv/io/json.h"
#include "qkv/model/config/description.h"

namespace qkv::model {

struct Translation {
  io::Json config;                  // config.json
  io::Json preprocessor = nullptr;  // preprocessor_config.json, or null
  std::string prefix;               // of the base model's tensor names
  std::vector<std::string> notes;   // future differences although the logits are equal, a sentence each
  bool names_dtype = false;         // true if config.json names the weights' type, as "dtype"
};

/// Whether the library itself has this kind of attention, as its models' own form.
inline bool HasKind(Family library, nn::AttentionKind kind) {
  return kind == nn::AttentionKind::kSeparate || (kind == nn::AttentionKind::kDifferential && library == Family::kTimm);
}

/// Reasons against a translation: pairs (applies, reason).
using Obstructions = std::vector<std::pair<bool, std::string>>;
/// Reasons that apply to all other libraries. who: the library, which begins the reasons: "timm", "Hugging Face's ViT".
Obstructions CommonObstructions(const VitConfig& config, std::string_view who);
/// Throws Error with all reasons that apply, if any.
void RefuseObstructed(const VitConfig& config, Family target, const Obstructions& obstructions);

/// Notes that images of other sizes than the trained one give other logits, if `target` interpolates positions by
/// another rule, `interpolation`; and that the model's own preprocessing makes such images, if it does.
void NoteOtherSizes(const Description& description, Family target, Interpolation interpolation,
                    std::vector<std::string>* notes);

/// True if preprocessing makes images of the trained size.
bool PreprocessesToTrainedSize(const Description& description);

/// Differences between the arithmetic of two configurations at the trained size, except LayerNorm's eps and the number
/// of tokens with a position, because a zero position equals none.
std::vector<std::string> Differences(const VitConfig& a, const VitConfig& b);

}  // namespace qkv::model
