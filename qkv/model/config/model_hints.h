// A caller's hints about a model whose files lack them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/io/json.h"

namespace qkv::model {

struct ModelHints {
  int64_t heads = 0;         // attention heads per block; 0: not given
  std::string state_dict;    // which dictionary of a PyTorch file, see io::WeightOptions; empty: not given
  std::string architecture;  // a name of timm's registry, or of families/known_models.h; empty: not given
  // Keys of the family's configuration and their values: timm's model_args, config.json of Hugging Face and
  // vit-pytorch, and the keys of their preprocessing.
  io::Json settings = io::Json::object();
  std::vector<double> mean, std;  // of pixels between 0 and 1, one value or one per channel; empty: not given
  double crop_pct = 0;            // the part of the resized image that is kept; 0: not given

  bool operator==(const ModelHints&) const = default;

  /// True if any of them changes the configuration.
  bool configure() const {
    return !architecture.empty() || !settings.empty() || !mean.empty() || !std.empty() || crop_pct > 0;
  }
  /// True if both are given; no tensor tells them.
  bool normalise() const { return !mean.empty() && !std.empty(); }
};

/// Reads "key=value" into hints.settings. The value is JSON (0.5, true, [2, 3], null) or else text. Throws Error
/// without a key or for a key that was given before.
void AddSetting(std::string_view text, ModelHints* hints);

}  // namespace qkv::model
