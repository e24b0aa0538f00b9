// Converts a checkpoint to another library's layout, to another type, or both. Not here: the other library's
// configuration (translate.h).
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "qkv/core/dtype.h"
#include "qkv/model/checkpoint/checkpoint.h"
#include "qkv/model/checkpoint/model_folder.h"
#include "qkv/model/checkpoint/text_checkpoint.h"

namespace qkv::model {

struct ConvertOptions {
  // Not set: the checkpoint's own layout, every tensor under its stored name. Set, even to its own: a layout that the
  // library itself can load, so attention with shared weights, or narrow queries and keys, is written as separate ones.
  std::optional<Family> layout;
  std::optional<DType> dtype;  // kF32, kF16 or kBF16; not set: unchanged
  bool force = false;          // write into a folder that is not empty
};

struct Converted {
  std::string layout;  // its name for people
  size_t tensors = 0, bytes = 0;
  std::vector<std::string> notes;  // differences although the logits are equal, a sentence each
};

/// Writes `folder`: config.json, model.safetensors and, for Hugging Face, preprocessor_config.json. See WriteModel: the
/// folder appears complete or not at all, and only after qkv could open it.
/// Throws Error that names what the layout cannot express, the tensor that a type cannot hold, or the file.
Converted Convert(const Checkpoint& checkpoint, const std::filesystem::path& folder, const ConvertOptions& options);

/// A text model in another type: its configuration, tokenizer and the modules of sentence-transformers unchanged.
/// Throws Error likewise, and for another layout.
Converted Convert(const TextCheckpoint& checkpoint, const std::filesystem::path& folder, const ConvertOptions& options);

/// The model unchanged: its own configuration (or one written for it, if it has none), every tensor under its stored
/// name. Throws Error that names the tensor that the type cannot hold, or what the configuration cannot express.
ModelFiles SameFiles(const Checkpoint& checkpoint, std::optional<DType> dtype);

}  // namespace qkv::model
