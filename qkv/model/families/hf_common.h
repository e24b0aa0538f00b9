// What the families of Hugging Face transformers share: keys of config.json, names of tensors, processors, translation.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "qkv/io/json.h"
#include "qkv/io/safetensors.h"
#include "qkv/model/checkpoint/tensor_names.h"
#include "qkv/model/checkpoint/translate.h"
#include "qkv/model/config/description.h"
#include "qkv/model/config/fields.h"

namespace qkv::model {

struct HfType {
  std::string_view type, stem, who;  // model_type, the common beginning of the classes' names, for messages
};

/// Whether a config.json is of Hugging Face and of one of these types.
bool HasModelType(const Fields& config, std::span<const std::string_view> types);

/// Whether tensors have the names of a Hugging Face Vision Transformer.
bool HasHfPatches(const io::SafeTensors& tensors);

/// Tensors outside the blocks.
inline constexpr NameRow kHfRows[] = {
    {"cls_token", "@embeddings.cls_token"},
    {"dist_token", "@embeddings.distillation_token"},
    {"reg_token", "@embeddings.register_tokens"},
    {"pos_embed", "@embeddings.position_embeddings"},
    {"patch_embed.proj", "@embeddings.patch_embeddings.projection"},
    {"norm", "@layernorm"},
    {"pooler", "@pooler.dense"},
    {"head", "classifier"},
};
inline constexpr std::string_view kHfMaskToken[] = {"@embeddings.mask_token"};

/// The class, and what all types write alike. patch: the type's default side.
Description ReadHfModel(const Fields& config, const HfType& type, int64_t patch, const io::SafeTensors& tensors);

/// Labels and number of classes where the class is a classifier. Returns whether it is.
bool ReadHfClassifier(const Fields& config, Description* description);

/// preprocessor_config.json, or what the type's own processor does without one.
void SetHfPreprocessor(const std::optional<io::Json>& preprocessor, io::Json otherwise, Description* description);

/// Throws Error when `name` is none that qkv has.
simd::Activation HfActivation(const std::string& name);

/// A config.json for tensors that came without one. Throws Error when heads are not given or the grid is no square.
io::Json HfConfigFromTensors(const io::SafeTensors& tensors, const Given& given, const HfType& type);

/// Says what HfConfigFromTensors assumed.
void NoteHfAssumptions(Description* description);

image::Preprocess PreprocessOfHf(const Description& description, ImageSize size);

// ---------------------------------------------------------------------------------------------------------------------
// Translation

/// The name that config.json has for it.
std::string_view HfName(simd::Activation activation);
/// What a model of this pooling does, for messages: "takes the class token alone".
std::string_view PhraseFor(Pool pool);

/// The class that holds the model, such as "ViTForImageClassification".
std::string HfClass(const VitConfig& config, const HfType& type);

/// config.json with the keys that all types have. Throws Error naming all obstructions: those of every type, and `own`.
Translation BeginHfTranslation(const Description& description, const HfType& type, const Obstructions& own);

/// Adds labels, prefix and processor, and notes what differs. interpolation: the type's own.
void EndHfTranslation(const Description& description, const HfType& type, Interpolation interpolation,
                      Translation* translation);

}  // namespace qkv::model
