// Heads that `qkv slide train` wrote: one fold's model, or the mean of a run's.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "qkv/io/json.h"
#include "qkv/mil/head.h"

namespace qkv::mil {

/// Keys of config.json by which a model and a run are recognised, and the version of a run's.
inline constexpr const char* kModelKey = "qkv_mil";
inline constexpr const char* kRunKey = "qkv_mil_run";
inline constexpr int64_t kRunVersion = 1;

/// A folder with config.json and model.safetensors. Throws Error.
std::unique_ptr<Head> OpenTrainedHead(const std::filesystem::path& folder);
/// A run's folder: all folds that have a model. Logits are logarithms of the mean probabilities, scores and weights are
/// means, and the vector is [folds, hidden]. Throws Error if there is none.
std::unique_ptr<Head> OpenRunHead(const std::filesystem::path& folder, const io::Json& config);

}  // namespace qkv::mil
