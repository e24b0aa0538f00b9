// Shared by the families of Hugging Face transformers: keys of config.json, tensor names, processors, translation.
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
  std::string_view type, stem, who;  // model_type; common prefix of the class names; name for messages
};

/// True if a config.json is of Hugging Face and of one of these types.
bool HasModelType(const Fields& config, std::span<const std::string_view> types);

/// True if the tensors have the names of a Hugging Face Vision Transformer.
bool HasHfPatches(const io::TensorSet& tensors);

/// Keys of config.json that all types read, and may be set by a caller.
inline constexpr std::string_view kHfSettings[] = {"image_size",        "patch_size",         "num_channels",
                                                   "hidden_size",       "num_hidden_layers",  "num_attention_heads",
                                                   "intermediate_size", "hidden_act",         "layer_norm_eps",
                                                   "qkv_bias",          "head_dim",           "num_labels",
                                                   "mlp_ratio",         "pooler_act",         "pooler_output_size",
                                                   "use_swiglu_ffn",    "num_register_tokens"};

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

/// Values of absent keys, which are those of a type's configuration class.
struct HfDefaults {
  int64_t patch = 16;
  std::string_view activation = "gelu";
  double eps = 1e-12;
};

/// The first of "architectures"; `otherwise` if there is none.
std::string HfArchitecture(const Fields& config, std::string otherwise);

/// True if a decoder's head is its table of tokens: the configuration ties them (`unless_given`: if it does not say)
/// and the file has no head of other values, as in transformers 5. Such a head is told in `assumptions`. table, head:
/// ends of their names.
bool HfTiesHead(const Fields& config, const io::TensorSet& tensors, std::string_view table, std::string_view head,
                std::vector<std::string>* assumptions, bool unless_given = true);

/// Throws Error, which names both, if a stored tensor that is a copy of another one by the model's definition has other
/// values. table, copies: ends of their names; a name that the file lacks is no copy.
void RequireHfCopies(const io::TensorSet& tensors, std::string_view table, std::span<const std::string_view> copies);

/// Sizes of an image encoder's blocks and patches, activation and eps.
void ReadHfEncoder(const Fields& config, const HfDefaults& defaults, VitConfig* c);

/// query_bias, key_bias, value_bias, proj_bias and mlp_bias of DINOv3. Throws Error for combinations without a tensor
/// layout.
void ReadHfDinov3Biases(const Fields& config, VitConfig* c);

/// Width and heads of blocks, under these keys, and the width of a head. Throws Error that names both keys unless the
/// heads divide the width.
void ReadHfHeads(const Fields& config, const std::string& width_key, int64_t width, const std::string& heads_key,
                 int64_t heads, nn::BlockConfig* block);

/// The class, and the keys that all types share. patch: default patch side of the type.
Description ReadHfModel(const Fields& config, const HfType& type, int64_t patch, const io::TensorSet& tensors);

/// Labels and number of classes, if the class is a classifier. Returns true if it is.
bool ReadHfClassifier(const Fields& config, Description* description);

/// Labels, and the number of classes: num_labels, if there are no labels.
int64_t ReadHfLabels(const Fields& config, Description* description);

/// Sets id2label and label2id; a class without a name is LABEL_ and its index.
void WriteHfLabels(const Description& description, io::Json* config);

/// preprocessor_config.json, or `otherwise`, the type's own default.
void SetHfPreprocessor(const std::optional<io::Json>& preprocessor, io::Json otherwise, Description* description);

/// Throws Error if qkv has no activation of this name.
simd::Activation HfActivation(const std::string& name);

/// A config.json for tensors without one. Throws Error if heads are not given or the grid is not square.
io::Json HfConfigFromTensors(const io::TensorSet& tensors, const ModelHints& given, const HfType& type);

/// Notes what HfConfigFromTensors assumed.
void NoteHfAssumptions(const ModelHints& given, Description* description);

image::Preprocess PreprocessOfHf(const Description& description, ImageSize size);

// ---------------------------------------------------------------------------------------------------------------------
// Translation

/// The activation's name in config.json.
std::string_view HfName(simd::Activation activation);
/// The effect of this pooling, for messages: "takes the class token alone".
std::string_view DescribePool(Pool pool);

/// The class that holds the model, such as "ViTForImageClassification".
std::string HfClass(const VitConfig& config, const HfType& type);

/// config.json with the keys that all types share. Throws Error that names all obstructions: common ones, and `own`.
Translation BeginHfTranslation(const Description& description, const HfType& type, const Obstructions& own);

/// Adds labels, prefix and processor, and notes differences. interpolation: that of the type.
void EndHfTranslation(const Description& description, const HfType& type, Interpolation interpolation,
                      Translation* translation);

}  // namespace qkv::model
