// From image::Preprocess to the libraries' configuration files: the way back of preprocess_config.h.
#pragma once

#include <string>
#include <vector>

#include "qkv/image/preprocess.h"
#include "qkv/io/json.h"

namespace qkv::model {

/// The keys of timm's pretrained_cfg: input_size, crop_pct, crop_mode, interpolation, mean, std. timm makes all images
/// of one size: `height` and `width` where `preprocess` does not say which. What it cannot say becomes a note.
io::Json PreprocessToTimm(const image::Preprocess& preprocess, int64_t height, int64_t width,
                          std::vector<std::string>* notes);

/// A preprocessor_config.json. What no processor of Hugging Face's does becomes a note.
io::Json PreprocessToHuggingFace(const image::Preprocess& preprocess, std::vector<std::string>* notes);

}  // namespace qkv::model
