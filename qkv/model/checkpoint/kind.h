// The kind of a model on disk, determined by its config.json alone.
#pragma once

#include <filesystem>

namespace qkv::model {

enum class ModelKind {
  kImages,     // an image encoder, also with a text tower (Checkpoint)
  kCaptions,   // an image encoder with a decoder that writes texts (Checkpoint)
  kTexts,      // a text model (TextCheckpoint)
  kSequences,  // made by qkv train from a task or a text (SequenceCheckpoint)
};

/// The kind of a folder, or of the folder of a file of weights. kImages if no config.json says otherwise, since opening
/// it then reports the problem. Throws Error if config.json is no JSON document.
ModelKind FindKind(const std::filesystem::path& path);

/// Throws Error, with the supported types of its kind, if the config.json there belongs to no family.
void RequireFamily(const std::filesystem::path& path);

}  // namespace qkv::model
