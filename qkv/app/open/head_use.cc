#include "qkv/app/open/head_use.h"

namespace qkv::app {

std::string_view UseOfHeads(const model::VitConfig& config) {
  switch (config.heads()) {
    case model::HeadKind::kBoxes:
      return "for boxes of objects try: qkv detect";
    case model::HeadKind::kMasks:
      return "for masks of objects try: qkv segment";
    case model::HeadKind::kClasses:
      return "for classes of whole images try: qkv classify";
    case model::HeadKind::kVector:
      break;
  }
  return config.projection_width > 0 ? "it is the image encoder of a model with two towers; with its text encoder qkv "
                                       "classify --prompts \"a cat,a dog\" gives classes, alone try: qkv embed"
                                     : "for vectors of images try: qkv embed";
}

}  // namespace qkv::app
