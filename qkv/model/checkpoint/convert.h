// A checkpoint written anew: in another library's layout, in another type, or both.
// Not here: what the other library's configuration says (translate.h).
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "qkv/core/dtype.h"
#include "qkv/model/checkpoint/checkpoint.h"
#include "qkv/model/checkpoint/model_folder.h"

namespace qkv::model {

struct ConvertOptions {
  // Nothing: its own, every stored name as it is. Asked for, also where it is its own: one that the library itself can
  // load, so that attention that shares weights, or has narrow queries and keys, is written as separate ones.
  std::optional<Family> layout;
  std::optional<DType> dtype;  // kF32, kF16 or kBF16; nothing: every tensor's own
  bool force = false;          // write into a folder that is not empty
};

struct Converted {
  Family layout;
  size_t tensors = 0, bytes = 0;
  std::vector<std::string> notes;  // what differs although the logits are equal, a sentence each
};

/// Writes `folder`: config.json, model.safetensors and, for Hugging Face, preprocessor_config.json. It appears whole or
/// not at all (with `force`: each file whole, config.json last), and only after qkv itself could open it.
/// Throws Error that names what the layout cannot express, the tensor that a type cannot hold, or the file.
Converted Convert(const Checkpoint& checkpoint, const std::filesystem::path& folder, const ConvertOptions& options);

/// The model as it is: its own configuration (one that is written for it, if it came without), every tensor under its
/// stored name. Throws Error naming the tensor that the type cannot hold, or what cannot be written down.
ModelFiles SameFiles(const Checkpoint& checkpoint, std::optional<DType> dtype);

}  // namespace qkv::model
