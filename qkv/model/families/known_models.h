// Published models whose file, or config.json on a hub, omits settings that only their authors' code or cards have; and
// such as qkv does not run, with the reason.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/io/json.h"

namespace qkv::model {

struct KnownModel {
  std::string name, hub_id;              // "virchow2", "paige-ai/Virchow2"
  std::string trident;                   // the name that TRIDENT gives it, "uni_v1"; else the same
  std::string refused;                   // why qkv does not run it; then it has no configuration. Else empty
  std::string pool;                      // features that its authors take: "cls", or "cls+mean"
  io::Json config;                       // config.json of its family
  std::optional<io::Json> preprocessor;  // preprocessor_config.json of Hugging Face
  std::string licence;                   // of its weights, as its card says: "CC BY-NC-ND 4.0: no commercial use"
  std::optional<bool> gated;             // whether the hub gives the weights on request only
  int64_t tile = 0;                      // pixels of a side of a slide's tile that it takes; 0: not a model of slides
  double magnification = 0;              // of that tile; 20 is some 0.5 microns a pixel
};

/// "CC BY-NC-ND 4.0: no commercial use; weights on request"; empty if its card says nothing.
std::string DescribeLicence(const KnownModel& model);

/// By name, TRIDENT's name or hub id, in upper or lower case.
std::optional<KnownModel> FindKnownModel(std::string_view name);

/// Names of those that qkv runs.
std::vector<std::string> KnownModelNames();

/// known_models.json, which the build embeds.
std::string_view KnownModelsText();

}  // namespace qkv::model
