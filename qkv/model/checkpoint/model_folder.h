// The folder of a model: everything that will be in it, complete before the first byte is written.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "qkv/model/checkpoint/convert_tensors.h"

namespace qkv::model {

inline constexpr const char* kConfigFile = "config.json";
inline constexpr const char* kPreprocessorFile = "preprocessor_config.json";

struct ModelFiles {
  TensorList weights;
  std::map<std::string, std::string> metadata;  // of the weights' file
  std::map<std::string, std::string> texts;     // by file name
  std::vector<std::string> notes;               // what differs although the logits are equal, a sentence each
};

/// Throws Error when there is something at `folder` that would be lost, and `force` is not given.
void RequireWritable(const std::filesystem::path& folder, bool force);

/// Writes the folder: it appears whole or not at all, and only after qkv itself could open it. With `force` it takes
/// the place of the folder that is there in one instant; other files of that one are in the new one too, weights and
/// their index and shards are not. Where the file system cannot exchange folders, there is none for a moment. Returns
/// the bytes of its tensors. Throws Error as RequireWritable, and with the system's reason.
size_t WriteModel(const ModelFiles& files, const std::filesystem::path& folder, bool force);

}  // namespace qkv::model
