// Completes the configuration files of a model by the caller's hints.
#pragma once

#include <string_view>
#include <vector>

#include "qkv/io/tensor_set.h"
#include "qkv/model/config/model_hints.h"
#include "qkv/model/layout/config_files.h"

namespace qkv::model {

/// Adds the caller's hints: an architecture completes config.json, or replaces a missing one; settings, mean, std and
/// crop_pct change it. Without config.json and architecture, names and shapes of the tensors are read. Throws Error if
/// something that changes every result stays open or contradicts the files, and names the option that settles it.
ConfigFiles CompleteConfig(ConfigFiles files, const io::TensorSet& tensors, const ModelHints& given);

/// The keys of ModelHints::settings that some family knows, sorted.
std::vector<std::string_view> SettingNames();

}  // namespace qkv::model
