// Reads the libraries' preprocessing configurations into image::Preprocess. Not here: writing them
// (preprocess_writer.h).
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "qkv/image/preprocess.h"
#include "qkv/io/fields.h"

namespace qkv::model {

using ImageSize = std::optional<std::pair<int64_t, int64_t>>;  // height, width

/// timm's evaluation transform (create_transform of resolve_data_config) for a pretrained_cfg, already merged with the
/// registry's defaults. Its channels are the first number of input_size.
/// size: another input size, as in create_transform(input_size=…): crop_pct stays. Throws Error that names the key if a
/// value has another type or is unknown to timm.
image::Preprocess PreprocessFromTimm(const io::Fields& fields, ImageSize size = {});

/// Hugging Face's image processor (PIL backend) for a preprocessor_config.json. channels: the model's num_channels. A
/// missing key gets the default of the class named by image_processor_type: ViT's, DeiT's, Bit's, CLIP's or Siglip's;
/// ViT's if the type is missing too (a caller that knows the model_type adds it). null turns a step off. size: replaces
/// size and crop_size; a shortest_edge becomes the longer side of `size`, so that the crop is filled. Throws Error that
/// names the key for an unknown processor or value, or a wrong type.
image::Preprocess PreprocessFromHuggingFace(const io::Fields& fields, int channels, ImageSize size = {});

}  // namespace qkv::model
