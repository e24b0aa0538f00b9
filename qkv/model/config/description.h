// What a checkpoint says about itself beside its weights: configuration, preprocessing, labels, from any family's
// files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "qkv/image/preprocess.h"
#include "qkv/io/json.h"
#include "qkv/io/safetensors.h"
#include "qkv/model/config/preprocess_config.h"
#include "qkv/model/config/vit_config.h"

namespace qkv::model {

struct Description {
  VitConfig config;
  image::Preprocess preprocess;
  std::vector<std::string> labels;       // by class, or empty
  std::vector<std::string> assumptions;  // what no file said, a sentence each
  // config.json says "qkv_background": "dark": images with a bright border are inverted before anything else.
  bool dark_background = false;
  // The library's own preprocessing configuration, from which `preprocess` for another input size is made.
  io::Json preprocess_json = nullptr;
};

/// What a caller knows of a model whose files do not say it.
struct Given {
  int64_t heads = 0;  // attention heads of a block; 0: not given
};

/// From a config.json of any family (families/), told apart by its keys; `preprocessor` is Hugging Face's
/// preprocessor_config.json. Throws Error that names the key, or the architecture and why qkv does not run it.
Description Describe(const io::Json& config, const std::optional<io::Json>& preprocessor,
                     const io::SafeTensors& tensors);

/// From the tensors' names and shapes and what is `given`. Throws Error, naming the option, where neither decides
/// something that changes every answer (the number of heads); what follows the family's usage is assumed, and said so.
Description DescribeFromTensors(const io::SafeTensors& tensors, const Given& given = {});

/// Throws Error when what is given contradicts what the model's files say.
void RequireAgreement(const Description& description, const Given& given);

/// `preprocess` for another input size, as the family's own library would make it.
image::Preprocess PreprocessForSize(const Description& description, int64_t height, int64_t width);

/// The configuration in timm's words alone, which a model trained here has too: without preprocessing or qkv's own
/// keys.
Description DescribeTimm(const io::Json& config);

}  // namespace qkv::model
