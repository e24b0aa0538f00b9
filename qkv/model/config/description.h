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

/// Who named the classes: the model's files; the caller; or nobody, and they are assumed from their number.
enum class LabelSource { kFiles, kCaller, kAssumed };

struct Description {
  VitConfig config;
  image::Preprocess preprocess;
  std::optional<TextTower> text;          // of a model with two towers
  std::optional<CaptionDecoder> decoder;  // of a model that writes texts about images
  std::vector<std::string> labels;        // by class, or empty
  LabelSource label_source = LabelSource::kFiles;
  std::vector<std::string> assumptions;  // values that no file states, a sentence each
  // "qkv_background": "dark" in config.json: images with a bright border are inverted before all other preprocessing.
  bool dark_background = false;
  // Why images cannot be prepared, though the rest is known; empty if they can.
  std::string unknown_preprocess;
  std::vector<io::Setting> settings;  // of the model's files: what each did
  // The library's own preprocessing configuration, from which `preprocess` is derived for another input size.
  io::Json preprocess_json = nullptr;
  std::string preprocess_file;  // where it stands
};

/// What messages call the files of a model.
struct ConfigNames {
  std::string config = "config.json", preprocessor = "preprocessor_config.json";
};

/// Reads a config.json of any family (families/), recognised by its keys. preprocessor: Hugging Face's. Throws Error
/// that names the key, or the architecture and why qkv does not run it.
Description Describe(const io::Json& config, const std::optional<io::Json>& preprocessor, const io::TensorSet& tensors,
                     const ConfigNames& names = {});

/// Infers the description from names and shapes of tensors and from `given`. Throws Error that names the option if
/// neither determines something that changes every result (the number of heads). What follows the family's convention
/// is assumed, and listed in `assumptions`.
Description DescribeFromTensors(const io::TensorSet& tensors, const ModelHints& given = {});

/// Throws Error if `given` contradicts the model's files.
void RequireAgreement(const Description& description, const ModelHints& given);

/// Throws Error if images cannot be prepared, with what the caller must give.
void RequireKnownPreprocess(const Description& description);

/// `preprocess` for another input size, as the family's own library computes it.
image::Preprocess PreprocessForSize(const Description& description, int64_t height, int64_t width);

/// The configuration at the size that images become by preprocessing, if it is the same for all. Stored positions may
/// be for another one (timm's dynamic_img_size, DINOv2 of Hugging Face), which `config` has.
VitConfig InputConfig(const Description& description);

/// Reads timm's keys only, which models trained by qkv have too: without preprocessing and qkv's own keys.
Description DescribeTimm(const io::Json& config);

}  // namespace qkv::model
