// How qkv used every setting in a model's files.
#pragma once

#include <string>
#include <vector>

#include "qkv/io/fields.h"
#include "qkv/io/json.h"
#include "qkv/model/config/model_hints.h"

namespace qkv::app {

/// Opens the files of an image or text model, its tokenizer's too, and settles their settings. path: as
/// ModelOptions::path. None for the built-in model and for sequence models, whose files only qkv writes. Throws Error
/// as opening it.
std::vector<io::Setting> ReadSettings(const std::string& path, const model::ModelHints& given);

/// For `qkv info --settings`: a line for each under the name of its file.
std::vector<std::string> SettingsLines(const std::vector<io::Setting>& settings);
/// The same as a list of objects with file, key, value (JSON as a text, cut if it is long) and use.
io::Json SettingsJson(const std::vector<io::Setting>& settings);

}  // namespace qkv::app
