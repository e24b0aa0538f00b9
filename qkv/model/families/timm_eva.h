// Shared by timm_vit.cc, timm_eva.cc and timm_beit.cc: timm has one form of config.json for all its classes.
#pragma once

#include <string>
#include <string_view>

#include "qkv/io/fields.h"
#include "qkv/model/config/description.h"
#include "qkv/model/families/family.h"
#include "qkv/model/families/preprocess_common.h"
#include "qkv/model/layout/translation.h"

namespace qkv::model {

/// Keys of timm's config.json and of its pretrained_cfg, whose keys stand beside the others in old files, where they
/// are not read.
inline constexpr io::KnownKey kTimmKnownKeys[] = {
    {"architecture"},
    {"num_classes"},
    {"num_features"},
    {"global_pool"},
    {"model_args"},
    {"pretrained_cfg"},
    {"library_name"},
    {"do_pooling", "true"},  // of transformers' wrapper
    // Where the weights are from.
    {"url"},
    {"file"},
    {"hf_hub_id"},
    {"hf_hub_filename"},
    {"source"},
    {"tag"},
    {"custom_load"},
    {"license"},
    {"description"},
    {"origin_url"},
    {"paper_name"},
    {"paper_ids"},
    {"notes"},
    // Settings of images: of another resolution, which is selected by name, and of training.
    {"input_size"},
    {"test_input_size"},
    {"min_input_size"},
    {"fixed_input_size"},
    {"interpolation"},
    {"crop_pct"},
    {"test_crop_pct"},
    {"crop_mode"},
    {"mean"},
    {"std"},
    {"pool_size"},
    {"test_pool_size"},
    // Settings of weights that become another model's.
    {"first_conv"},
    {"classifier"},
    {"label_offset"},
    {"label_names"},
    {"label_descriptions"},
    {"labels"},
    // Arguments of the classes: of training, or done at one value only.
    {"drop_rate"},
    {"pos_drop_rate"},
    {"patch_drop_rate"},
    {"proj_drop_rate"},
    {"attn_drop_rate"},
    {"drop_path_rate"},
    {"weight_init"},
    {"fix_init"},
    {"head_init_scale"},
    {"device"},
    {"dtype"},
    {"qkv_fused"},
    {"rope_shift_coords"},  // of training
    {"rope_jitter_coords"},
    {"rope_rescale_coords"},
    {"rope_mrope_section", "null"},
    {"dynamic_img_size"},
    {"dynamic_img_pad", "false"},
    {"embed_norm_layer", "null"},
    {"attn_pool_num_heads"},  // where attention pools
    {"attn_pool_mlp_ratio"},
    {"rope_type"},  // where positions rotate
    {"rope_grid_offset"},
    {"rope_grid_indexing"},
    {"rope_temperature"},
    {"rope_rotate_half"},
    {"ref_feat_shape"},
    {"swiglu_align_to"},
    {"pos_embed_align_corners"},
};

/// A config.json of timm: its own keys, without preprocessing.
Description DescribeTimmFile(const io::Fields& config);

/// The "model_type" with which transformers saves timm's models.
inline constexpr std::string_view kTimmWrapper[] = {"timm_wrapper"};

/// True for a config.json of timm, or of transformers' wrapper around it, which keeps timm's keys.
inline bool IsTimmConfig(const io::Fields& config) {
  return config.Has("architecture") &&
         (!config.Has("model_type") || config.String("model_type", "") == kTimmWrapper[0]);
}

/// Adapts a configuration to weights as the authors of DINOv2 and DINOv3 store them, whose names the layouts have.
/// Throws Error for biases of keys in DINOv3's, which are masked there.
void FitToAuthorsTensors(const io::TensorSet& tensors, VitConfig* config);

/// True if a config.json of timm is of class Eva: by its name in the registry, or by arguments that only Eva has.
bool IsTimmEva(const io::Fields& config);

/// The configuration for the arguments of Eva's constructor. Throws Error that names an argument that qkv lacks.
VitConfig ParseTimmEva(const io::Fields& args, const std::string& architecture);

/// The arguments that both classes have: sizes of image and patch, channels, width, depth and heads. Throws Error if
/// the heads do not divide the width.
void ParseTimmShape(const io::Fields& args, VitConfig* config);

/// Sets pool from "global_pool"; the class token must be known. Throws Error for a pooling that timm or qkv lacks.
void ParseTimmPool(const io::Fields& args, const std::string& otherwise, VitConfig* config);

/// A number, or two where they differ.
io::Json TimmSize(int64_t height, int64_t width);

/// The mlp_ratio with which timm, which multiplies and truncates, gets this hidden width.
double TimmMlpRatio(int64_t hidden, int64_t width);

/// The row of one of timm's classes, with the parts that all share: preprocessing and labels in their files.
constexpr FamilyRow TimmRow(FamilyRow own) {
  own.library = Family::kTimm;
  own.describe = [](const io::Fields& config, const std::optional<io::Json>&, const io::TensorSet& tensors) {
    Description description = DescribeTimmFile(config);
    FitToAuthorsTensors(tensors, &description.config);
    return description;
  };
  own.preprocess_settings = kTimmPreprocessKeys;
  own.arguments = [](io::Json& config) -> io::Json& { return config["model_args"]; };
  own.change_preprocess = ChangeTimmPreprocess;
  own.write_labels = [](const Description& description, io::Json* config) {
    (*config)["label_names"] = description.labels;
  };
  own.known = kTimmKnownKeys;
  own.preprocess = [](const Description&, const io::Fields& settings, ImageSize size) {
    return PreprocessFromTimm(settings, size);
  };
  own.preprocess_known = kTimmKnownKeys;
  return own;
}

/// Adds to config.json the keys that timm's classes share: eps if the entry's differs, pretrained_cfg and labels; and
/// notes.
void EndTimmTranslation(const Description& description, double entry_eps, Translation* translation);

}  // namespace qkv::model
