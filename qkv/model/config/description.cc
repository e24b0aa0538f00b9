#include "qkv/model/config/description.h"

#include "qkv/core/error.h"

namespace qkv::model {

VitConfig InputConfig(const Description& description) {
  VitConfig config = description.config;
  const image::Preprocess& p = description.preprocess;
  if (p.crop == image::Preprocess::Crop::kWhole) return config;
  if (p.crop != image::Preprocess::Crop::kNone) {
    config.image_height = p.crop_height, config.image_width = p.crop_width;
  } else if (p.resize == image::Preprocess::Resize::kExact) {
    config.image_height = p.resize_height, config.image_width = p.resize_width;
  }
  return config;
}

void RequireKnownPreprocess(const Description& description) {
  Require(description.unknown_preprocess.empty(), "images: {}", EscapedText{description.unknown_preprocess});
}

}  // namespace qkv::model
