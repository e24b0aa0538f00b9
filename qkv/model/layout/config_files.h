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
  bool stored = true;                    // false if it was completed beyond the files
  std::vector<std::string> assumptions;  // assumptions beyond the files and the caller's hints, a sentence each
  // Why images cannot be prepared: neither the files nor the caller determine how. Empty if they can.
  std::string unknown_preprocess;
};

}  // namespace qkv::model
