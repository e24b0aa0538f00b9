// What every setting in a model's files did.
#pragma once

#include <string>
#include <vector>

#include "qkv/io/fields.h"
#include "qkv/io/json.h"
#include "qkv/model/config/model_hints.h"

namespace qkv::app {

/// Opens the files of a model of images or texts, its tokenizer's too, and settles them. path: as ModelOptions::path.
/// None for the built-in model and for models of sequences, whose files only qkv writes. Throws Error as opening it.
std::vector<io::Setting> ReadSettings(const std::string& path, const model::ModelHints& given);

/// For `qkv info --settings`: a line for each under the name of its file.
std::vector<std::string> SettingsLines(const std::vector<io::Setting>& settings);
/// The same as a list of objects with file, key, value (JSON as a text, cut if it is long) and use.
io::Json SettingsJson(const std::vector<io::Setting>& settings);

}  // namespace qkv::app
