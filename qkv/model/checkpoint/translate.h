// A model said in another library's words: its configuration files, and what these cannot say.
// Not here: its tensors (convert.h).
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
  std::vector<std::string> notes;   // what will differ although the logits are equal, a sentence each
  bool names_dtype = false;         // config.json names the weights' type too, as "dtype"
};

/// In the words of a library (families/). Throws Error that names everything of the model that its class has not got.
Translation Translate(const Description& description, Family library);

/// For timm: an entry of its registry, and model_args for whatever differs from it.
/// Throws Error that names everything of the model that timm has not got.
Translation TranslateToTimm(const Description& description);

/// What keeps a model from being said in a library's words: those of (whether, why) that hold.
using Obstructions = std::vector<std::pair<bool, std::string>>;
/// What no library but the model's own has. `who` begins the reasons: "timm", "Hugging Face's ViT".
Obstructions CommonObstructions(const VitConfig& config, std::string_view who);
/// Throws Error with all of them when there are any.
void RefuseObstructed(const VitConfig& config, Family target, const Obstructions& obstructions);

/// Notes that images of other sizes than the trained one give other logits, where `target` interpolates positions by
/// another rule, `interpolation`; and that the model's own preprocessing makes such images, where it does.
void NoteOtherSizes(const Description& description, Family target, Interpolation interpolation,
                    std::vector<std::string>* notes);

/// Whether the preprocessing makes images of the trained size.
bool PreprocessesToTrainedSize(const Description& description);

/// In what the arithmetic of two configurations differs at the trained size, but for LayerNorm's eps; the number of
/// tokens that have a position does not count, since a position of zero serves as none.
std::vector<std::string> Differences(const VitConfig& a, const VitConfig& b);

}  // namespace qkv::model
