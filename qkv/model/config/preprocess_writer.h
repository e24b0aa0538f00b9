// Writes image::Preprocess as the libraries' preprocessing configurations, the inverse of preprocess_config.h.
#pragma once

#include <string>
#include <vector>

#include "qkv/image/preprocess.h"
#include "qkv/io/json.h"

namespace qkv::model {

/// The keys of timm's pretrained_cfg: input_size, crop_pct, crop_mode, interpolation, mean, std. timm brings all images
/// to one size: `height` and `width` if `preprocess` does not fix it. Steps that the keys cannot express are added to
/// `notes`.
io::Json PreprocessToTimm(const image::Preprocess& preprocess, int64_t height, int64_t width,
                          std::vector<std::string>* notes);

/// A preprocessor_config.json. Steps that no Hugging Face processor can do are added to `notes`.
io::Json PreprocessToHuggingFace(const image::Preprocess& preprocess, std::vector<std::string>* notes);

}  // namespace qkv::model
