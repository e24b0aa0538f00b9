// The description of a model from any family's files: configuration, preprocessing and labels. Not here: weights
// (checkpoint/checkpoint.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "qkv/image/preprocess.h"
#include "qkv/io/fields.h"
#include "qkv/io/json.h"
#include "qkv/io/safetensors.h"
#include "qkv/model/config/caption_decoder.h"
#include "qkv/model/config/model_hints.h"
#include "qkv/model/config/preprocess_config.h"
#include "qkv/model/config/text_tower.h"
#include "qkv/model/config/vit_config.h"

namespace qkv::model {

/// Source of the classes' names: the model's files; the caller; or assumed from their number.
enum class LabelSource { kFiles, kCaller, kAssumed };

struct Description {
  VitConfig config;
  image::Preprocess preprocess;
  std::optional<TextTower> text;          // of a model with two towers
  std::optional<CaptionDecoder> decoder;  // of a model that writes texts about images
  std::vector<std::string> labels;        // by class, or empty
  LabelSource label_source = LabelSource::kFiles;
  std::vector<std::string> assumptions;  // values that no file states, a sentence each
  // Of a published model (families/known_models.h), in words; empty: unknown.
  std::string licence;  // "CC BY-NC-ND 4.0: no commercial use; weights on request"
  std::string tiles;    // of a slide, that it takes: "256 pixels at 20x"
  // "qkv_background": "dark" in config.json: images with a bright border are inverted before all other preprocessing.
  bool dark_background = false;
  // Why images cannot be prepared, though everything else is known; empty if they can.
  std::string unknown_preprocess;
  std::vector<io::Setting> settings;  // of the model's files: the effect of each
  // The library's own preprocessing configuration, from which `preprocess` is derived for another input size.
  io::Json preprocess_json = nullptr;
  std::string preprocess_file;  // where it stands
};

/// The names of a model's files in messages.
struct ConfigNames {
  std::string config = "config.json", preprocessor = "preprocessor_config.json";
};

/// Throws Error if images cannot be prepared, with what the caller must give.
void RequireKnownPreprocess(const Description& description);

/// The configuration at the size that images become by preprocessing, if it is the same for all. Stored positions may
/// be for another one (timm's dynamic_img_size, DINOv2 of Hugging Face), which `config` has.
VitConfig InputConfig(const Description& description);

}  // namespace qkv::model
