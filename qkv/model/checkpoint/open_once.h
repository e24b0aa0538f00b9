// One attempt at opening a model of each kind, whose config.json was read; OpenWhole (opening.h) repeats it if another
// process replaced the model meanwhile.
#pragma once

#include <filesystem>
#include <optional>

#include "qkv/model/checkpoint/checkpoint.h"
#include "qkv/model/checkpoint/sequence_checkpoint.h"
#include "qkv/model/checkpoint/text_checkpoint.h"

namespace qkv::model {

/// config: of ConfigFile(path), none if there is no such file. Throws Error as the Open of each.
Checkpoint OpenImagesOnce(const std::filesystem::path& path, std::optional<io::Json> config, const ModelHints& given);
TextCheckpoint OpenTextsOnce(const std::filesystem::path& path, std::optional<io::Json> config);
SequenceCheckpoint OpenSequencesOnce(const std::filesystem::path& folder, std::optional<io::Json> config);

}  // namespace qkv::model
