// The configuration files of a model as they were read. Not here: their meaning (config/description.h).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "qkv/io/json.h"
#include "qkv/model/config/description.h"

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

}  // namespace qkv::model
