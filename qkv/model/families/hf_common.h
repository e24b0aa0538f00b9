// Shared by the families of Hugging Face transformers: keys of config.json, tensor names, processors, translation.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "qkv/io/fields.h"
#include "qkv/io/json.h"
#include "qkv/io/safetensors.h"
#include "qkv/model/config/description.h"
#include "qkv/model/layout/tensor_names.h"
#include "qkv/model/layout/translation.h"

namespace qkv::model {

struct HfType {
  std::string_view type, stem, who;  // model_type; common prefix of the class names; name for messages
};

/// True if a config.json is of Hugging Face and of one of these types.
bool HasModelType(const io::Fields& config, std::span<const std::string_view> types);

/// True if the tensors have the names of a Hugging Face Vision Transformer.
bool HasHfPatches(const io::TensorSet& tensors);

/// Keys of config.json that all types read, and may be set by a caller.
inline constexpr std::string_view kHfSettings[] = {"image_size",        "patch_size",         "num_channels",
                                                   "hidden_size",       "num_hidden_layers",  "num_attention_heads",
                                                   "intermediate_size", "hidden_act",         "layer_norm_eps",
                                                   "qkv_bias",          "head_dim",           "num_labels",
                                                   "mlp_ratio",         "pooler_act",         "pooler_output_size",
                                                   "use_swiglu_ffn",    "num_register_tokens"};

/// Keys that any config.json of the library may have, and that do not affect the answer, or not at one value.
inline constexpr io::KnownKey kHfKnownKeys[] = {
    {"model_type"},
    {"architectures"},
    {"transformers_version"},
    {"adapters"},
    {"name_or_path"},
    {"torch_dtype"},
    {"dtype"},
    {"use_cache"},
    {"return_dict"},
    {"use_return_dict"},
    {"output_attentions"},
    {"output_hidden_states"},
    {"output_past"},
    {"torchscript"},
    {"use_bfloat16"},
    {"use_flash_attention_2"},
    {"attn_implementation"},
    {"gradient_checkpointing"},
    {"tf_legacy_loss"},
    {"chunk_size_feed_forward"},
    {"auto_map"},
    {"license"},
    {"language"},
    {"library_name"},
    {"tags"},
    {"is_composition"},
    // Training.
    {"initializer_range"},
    {"initializer_factor"},
    {"hidden_dropout"},
    {"hidden_dropout_prob"},
    {"attention_dropout"},
    {"attention_probs_dropout_prob"},
    {"activation_dropout"},
    {"dropout"},
    {"dropout_rate"},
    {"classifier_dropout"},
    {"classifier_dropout_prob"},
    {"projection_dropout"},
    {"drop_path_rate"},
    {"layerdrop"},
    {"layer_dropout"},
    {"label_smoothing"},
    {"loss_type"},
    {"problem_type"},  // of a head
    {"pretraining_tp"},
    {"router_aux_loss_coef"},
    // Tasks, heads and tokens, where the model has no use for them.
    {"finetuning_task"},
    {"task_specific_params"},
    {"tokenizer_class"},
    {"prefix"},
    {"id2label"},
    {"label2id"},
    {"num_labels"},
    {"bos_token_id"},
    {"eos_token_id"},
    {"pad_token_id"},
    {"sep_token_id"},
    {"cls_token_id"},
    {"unk_token_id"},
    {"mask_token_id"},
    {"decoder_start_token_id"},
    {"tie_word_embeddings"},
    {"pruned_heads", "{}|[]"},
    {"is_decoder", "false"},
    {"is_encoder_decoder", "false"},
    {"add_cross_attention", "false"},
    {"cross_attention_hidden_size", "null"},
    {"tie_encoder_decoder", "false"},
    {"quantization_config", "{}"},
    {"compression_config", "{}"},
};

/// Likewise for a config.json of an image model.
inline constexpr io::KnownKey kHfImageKeys[] = {
    {"is_encoder_decoder"},  // an encoder of images with a decoder, whose cross-attention is looked at
    {"decoder.is_decoder"},
    {"decoder.add_cross_attention"},
    {"encoder_stride"},  // of heads that draw masked patches
    {"use_mask_token"},
    {"mask_ratio"},
    {"norm_pix_loss"},
    {"decoder_hidden_size"},
    {"decoder_intermediate_size"},
    {"decoder_num_attention_heads"},
    {"decoder_num_hidden_layers"},
    {"vocab_size"},
    {"type_vocab_size"},
    {"max_position_embeddings"},
    {"out_features"},  // of backbones, which give tokens of several blocks
    {"out_indices"},
    {"stage_names"},
    {"reshape_hidden_states"},
    {"apply_layernorm"},
    {"layerscale_value"},  // at the beginning of training
    {"pooler_act"},
    {"pooler_output_size"},
    {"projection_dim"},
    {"text_config"},
    {"vision_config"},
    {"text_config_dict"},
    {"vision_config_dict"},
    {"logit_scale_init_value"},
    {"intermediate_size"},
    {"hidden_act"},
    {"max_length"},
    {"auxiliary_loss"},  // of training with tasks
    {"auxiliary_channels"},
    {"auxiliary_concat_input"},
    {"auxiliary_loss_weight"},
    {"auxiliary_num_convs"},
    {"use_auxiliary_head"},
    {"semantic_loss_ignore_index"},
    {"pool_scales"},
    {"add_fpn"},
    {"bbox_cost"},
    {"bbox_loss_coefficient"},
    {"class_cost"},
    {"eos_coefficient"},
    {"giou_cost"},
    {"giou_loss_coefficient"},
    {"class_weight"},
    {"dice_weight"},
    {"mask_weight"},
    {"no_object_weight"},
    {"importance_sample_ratio"},
    {"oversample_ratio"},
    {"train_num_points"},
    {"pos_embed_jitter"},
    {"pos_embed_rescale"},
    {"pos_embed_shift"},
};

/// Keys of preprocessor_config.json that are of no effect: by themselves, or where the step that reads them is off.
inline constexpr io::KnownKey kHfProcessorKeys[] = {
    {"image_processor_type"},
    {"feature_extractor_type"},
    {"processor_class"},
    {"auto_map"},
    {"image_seq_length"},
    {"image_seq_len"},
    {"return_tensors"},
    {"data_format"},
    {"input_data_format"},
    {"device"},
    {"disable_grouping"},
    {"size"},
    {"max_size"},
    {"default_to_square"},
    {"resample"},
    {"crop_size"},
    {"rescale_factor"},
    {"image_mean"},
    {"image_std"},
    {"do_pad", "false"},
    {"pad_size", "null"},
    {"do_center_crop", "false"},
    {"do_split_image", "false"},
    // Settings of labels, which training reads.
    {"do_reduce_labels"},
    {"reduce_labels"},
    {"do_convert_annotations"},
    {"format"},
    {"num_labels"},
    {"ignore_index"},
};

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
std::string HfArchitecture(const io::Fields& config, std::string otherwise);

/// True if a decoder's head is its table of tokens: the configuration ties them (`unless_given`: the default) and the
/// file has no head with other values, as in transformers 5. Such a head is reported in `assumptions`. table, head:
/// ends of their names.
bool HfTiesHead(const io::Fields& config, const io::TensorSet& tensors, std::string_view table, std::string_view head,
                std::vector<std::string>* assumptions, bool unless_given = true);

/// Throws Error, which names both, if a stored tensor that is a copy of another one by the model's definition has other
/// values. table, copies: ends of their names; a name that the file lacks is no copy.
void RequireHfCopies(const io::TensorSet& tensors, std::string_view table, std::span<const std::string_view> copies);

/// Sizes of an image encoder's blocks and patches, activation and eps.
void ReadHfEncoder(const io::Fields& config, const HfDefaults& defaults, VitConfig* c);

/// query_bias, key_bias, value_bias, proj_bias and mlp_bias of DINOv3. Throws Error for combinations without a tensor
/// layout.
void ReadHfDinov3Biases(const io::Fields& config, VitConfig* c);

/// Width and heads of blocks, under these keys, and the width of a head. Throws Error that names both keys unless the
/// heads divide the width.
void ReadHfHeads(const io::Fields& config, const std::string& width_key, int64_t width, const std::string& heads_key,
                 int64_t heads, nn::BlockConfig* block);

/// The class, and the keys that all types share. patch: default patch side of the type.
Description ReadHfModel(const io::Fields& config, const HfType& type, int64_t patch, const io::TensorSet& tensors);

/// Labels and number of classes, if the class is a classifier. Returns true if it is.
bool ReadHfClassifier(const io::Fields& config, Description* description);

/// Labels, and the number of classes: num_labels, if there are no labels.
int64_t ReadHfLabels(const io::Fields& config, Description* description);

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

image::Preprocess PreprocessOfHf(const Description& description, const io::Fields& settings, ImageSize size);

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
