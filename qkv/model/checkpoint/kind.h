// The kind of a model on disk, determined by its config.json alone.
#pragma once

#include <filesystem>
#include <string_view>

#include "qkv/io/json.h"

namespace qkv::model {

enum class ModelKind {
  kImages,     // an image encoder, also with a text tower (Checkpoint)
  kCaptions,   // an image encoder with a decoder that writes texts (Checkpoint)
  kTexts,      // a text model (TextCheckpoint)
  kSequences,  // made by qkv train from a task or a text (SequenceCheckpoint)
};

/// In a sentence: "a text model".
std::string_view Describe(ModelKind kind);

/// The kind that config.json states. kImages if it states none, since opening the model then reports the problem.
/// is_folder: sequence models are folders; a file of weights beside their config.json is none.
ModelKind KindOf(const io::Json& config, bool is_folder);

/// The same for a folder, or for the folder of a file of weights. Throws Error if config.json is no JSON document.
ModelKind FindKind(const std::filesystem::path& path);

}  // namespace qkv::model
