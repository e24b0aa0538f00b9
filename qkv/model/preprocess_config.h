// From the libraries' configuration files to image::Preprocess.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "qkv/image/preprocess.h"
#include "qkv/io/json.h"

namespace qkv::model {

using ImageSize = std::optional<std::pair<int64_t, int64_t>>;  // height, width

/// timm's evaluation transform for a pretrained_cfg (already merged with the registry's defaults).
/// `size`: another input size than the configuration's.
image::Preprocess PreprocessFromTimm(const io::Json& pretrained_cfg, ImageSize size = {});

/// Hugging Face's image processor (PIL backend) for a preprocessor_config.json; `channels` is the model's num_channels.
image::Preprocess PreprocessFromHuggingFace(const io::Json& preprocessor_config, int channels, ImageSize size = {});

}  // namespace qkv::model
