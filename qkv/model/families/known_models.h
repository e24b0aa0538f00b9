// Published models whose file, or config.json on a hub, omits settings that only their authors' code or cards have.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/io/json.h"

namespace qkv::model {

struct KnownModel {
  std::string name, hub_id;              // "virchow2", "paige-ai/Virchow2"
  std::string pool;                      // features that its authors take: "cls", or "cls+mean"
  io::Json config;                       // config.json of its family
  std::optional<io::Json> preprocessor;  // preprocessor_config.json of Hugging Face
};

/// By name or hub id, in upper or lower case.
std::optional<KnownModel> FindKnownModel(std::string_view name);

/// All names.
std::vector<std::string> KnownModelNames();

/// known_models.json, which the build embeds.
std::string_view KnownModelsText();

}  // namespace qkv::model
