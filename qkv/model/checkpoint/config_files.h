// The configuration files of a model, completed by what a caller knows. Not here: their meaning (config/description.h).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "qkv/io/json.h"
#include "qkv/io/tensor_set.h"
#include "qkv/model/config/description.h"
#include "qkv/model/config/model_hints.h"

namespace qkv::model {

struct ConfigFiles {
  io::Json config;                       // config.json; null if there is none
  std::optional<io::Json> preprocessor;  // preprocessor_config.json of Hugging Face
  ConfigNames names;
  bool stored = true;                    // false if it is completed, not as the files say
  std::vector<std::string> assumptions;  // what neither the files nor the caller say, a sentence each
  // Why images cannot be prepared: neither the files nor the caller say how. Empty if they can.
  std::string unknown_preprocess;
};

/// Adds what the caller gave: an architecture completes config.json, or replaces a missing one; settings, mean, std and
/// crop_pct change it. Without config.json and architecture, names and shapes of the tensors are read. Throws Error if
/// something that changes every result stays open or contradicts the files, and names the option that settles it.
ConfigFiles CompleteConfig(ConfigFiles files, const io::TensorSet& tensors, const ModelHints& given);

}  // namespace qkv::model
