// From the libraries' configuration files to image::Preprocess.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "qkv/image/preprocess.h"
#include "qkv/io/json.h"

namespace qkv::model {

using ImageSize = std::optional<std::pair<int64_t, int64_t>>;  // height, width

/// timm's evaluation transform (create_transform of resolve_data_config) for a pretrained_cfg, already merged with the
/// registry's defaults; its channels are input_size's first number.
/// `size`: another input size, as create_transform(input_size=…) takes it: crop_pct stays.
/// Throws Error that names the key for a value that timm knows none of, or of another type.
image::Preprocess PreprocessFromTimm(const io::Json& pretrained_cfg, ImageSize size = {});

/// Hugging Face's image processor (PIL backend) for a preprocessor_config.json; `channels` is the model's num_channels.
/// A missing key gets the default of the class named by image_processor_type: ViT's, DeiT's, Bit's or CLIP's, and ViT's
/// where the type is missing too (a caller who knows the model_type fills it in). null turns a step off.
/// `size` replaces size and crop_size; a shortest_edge becomes the longer of its sides, so that the crop is filled.
/// Throws Error that names the key for an unknown processor or value, or one of another type.
image::Preprocess PreprocessFromHuggingFace(const io::Json& preprocessor_config, int channels, ImageSize size = {});

}  // namespace qkv::model
