// What a checkpoint is, and what was assumed about it.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "qkv/io/fields.h"
#include "qkv/io/json.h"
#include "qkv/model/checkpoint/checkpoint.h"
#include "qkv/model/checkpoint/text_checkpoint.h"

namespace qkv::app {

/// What each setting of a model's files did, for `qkv info --settings`: a line each under the name of its file.
std::vector<std::string> SettingsLines(std::span<const io::Setting> settings);
/// The same as a list of objects with file, key, value (JSON as a text, cut if it is long) and use.
io::Json SettingsJson(std::span<const io::Setting> settings);

/// The fields of `qkv info --json`: source, family, sizes, cost, labels, preprocessing in words, assumptions.
/// Why a vector is not what a head of the file would make of it: "vit: classifier.weight and 1 more tensor of a head
/// are not read"; empty if the model uses all heads of its file. Counters and tables that hold nothing learned are not
/// told.
std::string UnreadHeads(const model::Checkpoint& checkpoint);
std::string UnreadHeads(const model::TextCheckpoint& checkpoint);

io::Json InfoJson(const model::Checkpoint& checkpoint);

/// The same for people, and what this machine runs it on: names and values, a line each.
std::vector<std::pair<std::string, std::string>> InfoLines(const model::Checkpoint& checkpoint);

}  // namespace qkv::app
