// Opens a model of any kind: config.json is read once, and says which.
#pragma once

#include <filesystem>
#include <string>
#include <variant>

#include "qkv/model/checkpoint/checkpoint.h"
#include "qkv/model/checkpoint/kind.h"
#include "qkv/model/checkpoint/sequence_checkpoint.h"
#include "qkv/model/checkpoint/text_checkpoint.h"

namespace qkv::model {

using AnyCheckpoint = std::variant<Checkpoint, TextCheckpoint, SequenceCheckpoint>;

/// path: as Checkpoint::Open. given: read for image models alone. Throws Error as the Open of the kind.
AnyCheckpoint OpenAnyCheckpoint(const std::filesystem::path& path, const ModelHints& given = {});

ModelKind KindOf(const AnyCheckpoint& checkpoint);

/// The tensors as stored.
const io::TensorSet& TensorsOf(const AnyCheckpoint& checkpoint);

/// The path, for messages.
const std::string& SourceOf(const AnyCheckpoint& checkpoint);

}  // namespace qkv::model
